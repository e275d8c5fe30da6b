#include "launch/process/worker_environment.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <type_traits>

namespace trainctl::launch {
namespace {

static_assert(std::is_same_v<std::sig_atomic_t, int>);
volatile std::sig_atomic_t stop_flag = 0;

// The supervisor may forward a signal that others have also sent to this process.
pid_t supervisor_pid = 0;
volatile std::sig_atomic_t external_signal = 0;  // signal from any other process
volatile std::int64_t external_signal_at_ns = 0;

// ---- Async-signal-safe; the handlers block each other's signals.

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

extern "C" void store_stop_signal(int signal, siginfo_t* info, void* /*context*/) {
  constexpr std::int64_t kRepeatNs = 200'000'000;
  if (stop_flag == 0) stop_flag = signal;
  if (supervisor_pid != 0 && info->si_pid == supervisor_pid) return;
  const std::int64_t now = now_ns();
  if (external_signal == 0) {
    external_signal = signal;
    external_signal_at_ns = now;
  } else if (signal != external_signal || now - external_signal_at_ns >= kRepeatNs) {
    const bool interrupted = stop_flag == SIGINT;
    ::_exit(static_cast<int>(interrupted ? ErrorKind::interrupted : ErrorKind::terminated));
  }
}

// ---- The rest is not async-signal-safe.

struct Range {
  int least;
  int most;
};

std::optional<int> read_number(const char* name, Range range) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const auto value = parse_number<int>(text);
  const bool fits = value && *value >= range.least && *value <= range.most;
  ENSURE(config, fits, "environment variable {} must be a whole number from {} to {}, got '{}'",
         name, range.least, range.most, printable(text));
  return value;
}

int required_number(const char* name, Range range) {
  const auto value = read_number(name, range);
  ENSURE(config, value.has_value(),
         "environment variable {} is not set\nhint: start workers with `trainctl run`", name);
  return *value;
}

int read_descriptor(const char* name) {
  const int fd = read_number(name, {3, std::numeric_limits<int>::max()}).value_or(-1);
  if (fd < 0) return fd;
  ENSURE(config, ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0,
         "environment variable {} contains the file descriptor {}, which is not open", name, fd);
  return fd;
}

std::string read_accelerator() {
  const char* text = std::getenv(kAccelerator);
  if (text == nullptr) return {};
  const std::string_view word(text);
  ENSURE(config, word == "cpu" || word == "gpu",
         "environment variable {} must be cpu or gpu, got '{}'", kAccelerator, printable(word));
  return text;
}

std::string read_group_address() {
  const char* text = std::getenv(kGroupAddress);
  if (text == nullptr) return {};
  in6_addr bytes{};
  const bool numeric =
      ::inet_pton(AF_INET, text, &bytes) == 1 || ::inet_pton(AF_INET6, text, &bytes) == 1;
  ENSURE(config, numeric, "environment variable {} must be a numeric address, got '{}'",
         kGroupAddress, printable(text));
  return text;
}

void check_parent() {
  const auto supervisor = read_number(kSupervisorPid, {1, std::numeric_limits<int>::max()});
  if (!supervisor) return;
  ENSURE(rank_failed, ::getppid() == *supervisor,
         "the trainctl process that started this rank (pid {}) has exited", *supervisor);
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
  env.group_address = read_group_address();
  return env;
}

void install_stop_flag() {
  if (const char* text = std::getenv(kSupervisorPid))
    supervisor_pid = static_cast<pid_t>(std::strtol(text, nullptr, 10));
  struct sigaction action {};
  action.sa_sigaction = store_stop_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  constexpr std::array kSignals{SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP};
  ::sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) ::sigaddset(&action.sa_mask, signal);
  for (const int signal : kSignals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    const bool kept = signal == SIGHUP && before.sa_handler == SIG_IGN;  // as under nohup
    if (!kept) ::sigaction(signal, &action, nullptr);
  }
}

const volatile int* stop_signal() { return &stop_flag; }

}  // namespace trainctl::launch
