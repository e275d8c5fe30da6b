#include "engine/entry.h"

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/machine/allocator.hpp"
#include "data/formats/mapped_file.hpp"
#include "dist/torchrun_store.hpp"
#include "engine/failure.hpp"
#include "engine/worker.hpp"
#include "events/pipe.hpp"
#include "launch/supervise/verdict.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace trainctl::engine {
namespace {

/// The mode of a request that starts no worker. Its `store_fd` is a stream with one JSON object,
/// {"do": "publish" or "fetch", "host", "port", "timeout_s", "key", "text"}, that ends at the end
/// of the stream; the answer is written to it: the fetched text, or an error message.
constexpr std::string_view kExchangeMode = "exchange";
constexpr std::size_t kMostBytes = 128 << 10;

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.size() <= kMostBytes) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    ENSURE(unexpected, count >= 0, "cannot read the request for torchrun's store: {}",
           std::strerror(errno));
    if (count == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

std::string answer_to(const Json& asked) {
  using Seconds = std::chrono::duration<double>;
  const auto timeout = Seconds(asked.at("timeout_s").get<double>());
  const dist::TcpStoreAddress store{
      .host = asked.at("host").get<std::string>(),
      .port = asked.at("port").get<std::uint16_t>(),
      .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout)};
  const auto key = asked.at("key").get<std::string>();
  const auto what = asked.at("do").get<std::string>();
  if (what == "fetch") return dist::fetch_text(store, key);
  ENSURE(unexpected, what == "publish", "unknown request '{}' for torchrun's store", what);
  dist::publish_text(store, key, asked.at("text").get<std::string>());
  return "";
}

/// Publishes or fetches a text in torchrun's store. Returns 0, or the kind of the error.
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
  write_all(request.store_fd, answer, "the answer of torchrun's store");
  return kind;
}

/// Reports in two ways: the error file in case the pipe is closed, the event in case the disk is
/// full. A failure of either must not hide the original error.
void report(const TrainctlEngineRequest& request, const Error& error, events::Failed failed,
            const train::EventSink& emit) {
  failed.kind = error.exit_code();
  failed.message = error.what();
  try {
    launch::write_error_file(std::filesystem::path(request.run_dir) / "logs", request.rank, error);
  } catch (...) {
  }
  try {
    emit(failed);
  } catch (...) {
  }
}

/// In a signal handler, which ends the process, only this file can be written.
void report_lost_pages(const TrainctlEngineRequest& request) {
  data::report_lost_pages(
      {launch::error_path(std::filesystem::path(request.run_dir) / "logs", request.rank),
       fmt::format(R"({{"schema":"trainctl.rank_error/2","rank":{},"kind":{},"message":")",
                   request.rank, static_cast<int>(ErrorKind::data)),
       "\"}\n"});
}

int run(const TrainctlEngineRequest& request) {
  if (request.mode == kExchangeMode) return exchange(request);
  keep_freed_memory();
  report_lost_pages(request);
  std::optional<events::EventWriter> writer;
  if (request.event_fd >= 0) writer.emplace(request.event_fd);
  std::optional<events::HeartbeatPage> page;
  const train::EventSink emit = [&](const events::Event& event) {
    if (!writer) return;
    writer->write(event);
    if (page) page->get().num_written.fetch_add(1, std::memory_order_relaxed);
  };
  std::optional<Worker> worker;
  try {
    if (request.heartbeat_fd >= 0)
      page.emplace(events::HeartbeatPage::attach(request.heartbeat_fd));
    worker.emplace(request, page ? &page->get() : nullptr, emit);
    return worker->run();
  } catch (...) {
    const Error error = as_error(std::current_exception());
    report(request, error, worker ? worker->failure_at() : events::Failed{.rank = request.rank},
           emit);
    return error.exit_code();
  }
}

}  // namespace
}  // namespace trainctl::engine

extern "C" int trainctl_engine_v1(const TrainctlEngineRequest* request) {
  try {
    return trainctl::engine::run(*request);
  } catch (...) {
    return static_cast<int>(trainctl::ErrorKind::unexpected);
  }
}
