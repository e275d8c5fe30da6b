#include "engine/exchange.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "dist/torchrun_store.hpp"
#include "engine/failure.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>

namespace trainctl::engine {
namespace {

constexpr std::size_t kMostBytes = 128 << 10;

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.size() <= kMostBytes) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    ENSURE(unexpected, count >= 0, "cannot read the request of the exchange: {}",
           std::strerror(errno));
    if (count == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

std::string answer_to(const Json& wish) {
  using Seconds = std::chrono::duration<double>;
  const auto timeout = Seconds(wish.at("timeout_s").get<double>());
  const dist::TcpStoreAddress store{
      .host = wish.at("host").get<std::string>(),
      .port = wish.at("port").get<std::uint16_t>(),
      .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout)};
  const auto key = wish.at("key").get<std::string>();
  const auto what = wish.at("do").get<std::string>();
  if (what == "fetch") return dist::fetch_text(store, key);
  ENSURE(unexpected, what == "publish", "the exchange knows no '{}'", what);
  dist::publish_text(store, key, wish.at("text").get<std::string>());
  return "";
}

}  // namespace

int exchange(const TrainctlEngineRequest& request) {
  int kind = 0;
  std::string answer;
  try {
    answer = answer_to(Json::parse(read_to_end(request.store_fd)));
  } catch (...) {
    const Error error = as_error(std::current_exception());
    kind = error.exit_code();
    answer = error.what();
  }
  write_all(request.store_fd, answer, "the answer of the exchange");
  return kind;
}

}  // namespace trainctl::engine
