#include "run/engine_exchange.hpp"

#include "base/json.hpp"
#include "base/strings.hpp"
#include "cli/engine_library.hpp"
#include "cli/output.hpp"
#include "launch/process/isolated_process.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace trainctl::app {
namespace {

constexpr double kExchangeSeconds = 300;

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

/// In a child: the engine stays loaded. What is asked and answered is smaller than a socket's
/// buffer, so one process may hold both ends.
std::string ask_engine(const std::string& wish) {
  std::array<int, 2> ends{};
  ENSURE(resource, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
         "cannot make a socket: {}", std::strerror(errno));
  const Fd ours(ends[0]);
  Fd theirs(ends[1]);
  write_all(ours.get(), wish, "the request of the exchange");
  ::shutdown(ours.get(), SHUT_WR);
  const TrainctlEngineRequest request{.run_dir = "",
                                      .mode = "exchange",
                                      .rank = 0,
                                      .world_size = 1,
                                      .local_rank = 0,
                                      .local_world_size = 1,
                                      .event_fd = -1,
                                      .heartbeat_fd = -1,
                                      .store_fd = theirs.get(),
                                      .stop_signal = nullptr,
                                      .accelerator = nullptr};
  const int kind = load_engine()(&request);
  theirs.reset();
  std::string answer = read_to_end(ours.get());
  if (kind != 0) throw Error(static_cast<ErrorKind>(kind), std::move(answer));
  return answer;
}

std::string exchange(const launch::TaskPlace& task, Json wish) {
  wish["host"] = task.master_addr;
  wish["port"] = task.master_port.value_or(0);
  wish["timeout_s"] = kExchangeSeconds;
  const auto body = [text = to_line(wish)] {
    ::alarm(static_cast<unsigned>(2 * kExchangeSeconds));  // ends a connection that hangs
    ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);           // its errors are told by ours
    return ask_engine(text);
  };
  return launch::run_isolated(body, {.who = "the process that asks torchrun's store"}).text;
}

}  // namespace

study::Exchange engine_exchange(const launch::TaskPlace& task) {
  return {.publish =
              [task](const std::string& key, const std::string& text) {
                exchange(task, {{"do", "publish"}, {"key", key}, {"text", text}});
              },
          .fetch =
              [task](const std::string& key) {
                return exchange(task, {{"do", "fetch"}, {"key", key}});
              }};
}

void speak_for(const study::NodePlan& plan, Context& context) {
  if (plan.task && !plan.is_head()) context.quiet = true;
  if (!plan.said.empty() && !context.quiet && !context.json)
    writer_for(stderr)(printable(plan.said) + "\n");
}

}  // namespace trainctl::app
