#include "launch/worker_env.hpp"

#include "base/strings.hpp"
#include "launch/environment.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

namespace trainctl::launch {
namespace {

static_assert(std::is_same_v<std::sig_atomic_t, int>);
volatile std::sig_atomic_t stop_flag = 0;

extern "C" void note_stop_signal(int signal) { stop_flag = signal; }

struct Range {
  int least;
  int most;
};

std::optional<int> read_number(const char* name, Range range) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  const bool fits =
      error == std::errc() && stop == end && value >= range.least && value <= range.most;
  ENSURE(config, fits, "environment variable {} is '{}', expected a whole number from {} to {}",
         name, printable(text), range.least, range.most);
  return value;
}

int required_number(const char* name, Range range) {
  const auto value = read_number(name, range);
  ENSURE(config, value.has_value(),
         "environment variable {} is not set; workers are started by `trainctl run`", name);
  return *value;
}

int read_descriptor(const char* name) {
  const int fd = read_number(name, {3, std::numeric_limits<int>::max()}).value_or(-1);
  if (fd < 0) return fd;
  ENSURE(config, ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0,
         "environment variable {} names descriptor {}, which is not open", name, fd);
  return fd;
}

std::string read_accelerator() {
  const char* text = std::getenv(kAccelerator);
  if (text == nullptr) return {};
  const std::string_view word(text);
  ENSURE(config, word == "cpu" || word == "gpu",
         "environment variable {} is '{}', expected cpu or gpu", kAccelerator, printable(word));
  return text;
}

void check_parent() {
  const auto supervisor = read_number(kSupervisorPid, {1, std::numeric_limits<int>::max()});
  if (!supervisor) return;
  ENSURE(rank_failed, ::getppid() == *supervisor, "the supervisor (pid {}) is gone", *supervisor);
}

}  // namespace

WorkerEnv read_worker_env() {
  constexpr int kMostRanks = 1 << 16;
  WorkerEnv env;
  env.supervised = std::getenv(kEventFd) != nullptr;
  if (!env.supervised) return env;
  check_parent();
  env.world_size = required_number(kWorldSize, {1, kMostRanks});
  env.rank = required_number(kRank, {0, env.world_size - 1});
  env.local_world_size = required_number(kLocalWorldSize, {1, env.world_size});
  env.local_rank = required_number(kLocalRank, {0, env.local_world_size - 1});
  env.event_fd = read_descriptor(kEventFd);
  env.heartbeat_fd = read_descriptor(kHeartbeatFd);
  env.store_fd = read_descriptor(kStoreFd);
  env.stacks_fd = read_descriptor(kStacksFd);
  env.accelerator = read_accelerator();
  return env;
}

void install_stop_flag() {
  struct sigaction action {};
  action.sa_handler = note_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT}) ::sigaction(signal, &action, nullptr);
}

const volatile int* stop_signal() { return &stop_flag; }

}  // namespace trainctl::launch
