#include "launch/process/child.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/gpus.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/procfs.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>
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

enum class StartStep : int { input, log, exec };

// Sent through a pipe that execve() closes.
struct StartFailure {
  StartStep step;
  int cause;
};

struct PreparedChild {
  const ChildPlan& plan;
  std::vector<char*> argv;
  std::vector<char*> environment;
  int report_fd;
  pid_t parent;
  int max_fds;
  cpu_set_t cores;  // empty: not pinned
};

cpu_set_t set_of(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    if (core < CPU_SETSIZE) CPU_SET(core, &set);
  }
  return set;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

int descriptor_limit() {
  constexpr rlim_t kMaxDescriptors = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return static_cast<int>(kMaxDescriptors);
  return static_cast<int>(limit.rlim_cur < kMaxDescriptors ? limit.rlim_cur : kMaxDescriptors);
}

// ---- From here to execve() only async-signal-safe calls are allowed: other threads may have held
// locks at the fork.

[[noreturn]] void report_and_exit(const PreparedChild& child, StartStep step) {
  const StartFailure failure{step, errno};
  const ssize_t ignored = ::write(child.report_fd, &failure, sizeof failure);
  static_cast<void>(ignored);
  ::_exit(127);
}

void close_descriptors_on_exec(const PreparedChild& child) {
  constexpr unsigned kFirst = 3;
  if (::syscall(SYS_close_range, kFirst, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */) != 0) {
    for (int fd = kFirst; fd < child.max_fds; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  const InheritedFds& fds = child.plan.fds;
  for (const int fd : {fds.events, fds.heartbeat, fds.store, fds.stacks}) {
    if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
  }
}

void redirect(const PreparedChild& child) {
  const int input = ::open("/dev/null", O_RDONLY);
  if (input < 0 || ::dup2(input, STDIN_FILENO) < 0) report_and_exit(child, StartStep::input);
  // With O_NONBLOCK, a pipe without a reader is an error. The flag has no effect on files.
  const int log =
      ::open(child.plan.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK, 0644);
  if (log < 0 || ::dup2(log, STDOUT_FILENO) < 0 || ::dup2(log, STDERR_FILENO) < 0)
    report_and_exit(child, StartStep::log);
}

[[noreturn]] void exec_child(const PreparedChild& child) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) ::_exit(127);  // the parent died before prctl()
  ::setpgid(0, 0);
  // The kernel rejects a set without an allowed core; the child is not pinned then.
  ::sched_setaffinity(0, sizeof child.cores, &child.cores);
  redirect(child);
  close_descriptors_on_exec(child);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  // SIGHUP is left out: workers ignore it under nohup, and execve() resets what is not ignored.
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE, SIGQUIT}) {
    ::sigaction(signal, &standard, nullptr);
  }
  ::pthread_sigmask(SIG_SETMASK, &child.plan.mask, nullptr);
  ::execve(child.argv[0], child.argv.data(), child.environment.data());
  report_and_exit(child, StartStep::exec);
}

// ---- The parent process.

[[noreturn]] void throw_start_error(const ChildPlan& plan, const StartFailure& failure) {
  const char* cause = std::strerror(failure.cause);
  switch (failure.step) {
    case StartStep::input: THROW(resource, "cannot open /dev/null for a worker: {}", cause);
    case StartStep::log: THROW(resource, "cannot write {}: {}", printable(plan.log_path), cause);
    case StartStep::exec: break;
  }
  THROW(resource, "cannot start the worker {}: {}", printable(plan.argv[0]), cause);
}

// The pipe is closed without data if execve() succeeded.
std::optional<StartFailure> read_failure(int fd) {
  StartFailure failure{};
  ssize_t count = 0;
  do {
    count = ::read(fd, &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof failure)) return std::nullopt;
  return failure;
}

using Variables = std::map<std::string, std::string>;

Variables inherited_environment() {
  Variables variables;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=', 1);
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

void set_fd(Variables& variables, const char* name, int fd) {
  variables.erase(name);
  if (fd >= 0) variables[name] = std::to_string(fd);
}

// libgomp's spin count: a fraction of a millisecond, the time between two operations of a step.
constexpr const char* kSpinCount = "30000";

void set_wait_policy(Variables& variables, OmpWaitPolicy waiting) {
  if (variables.contains("OMP_WAIT_POLICY") || variables.contains("GOMP_SPINCOUNT")) return;
  if (waiting == OmpWaitPolicy::spin) {
    variables["GOMP_SPINCOUNT"] = kSpinCount;
  } else {
    variables["OMP_WAIT_POLICY"] = "passive";
  }
}

std::string prepend_folders(const std::vector<std::string>& folders, const std::string& before) {
  const std::string added = trainctl::join(folders, ":");
  return before.empty() ? added : added + ":" + before;
}

std::set<pid_t> own_children() {
  std::set<pid_t> children;
  for_each_entry("/proc", [&](const std::filesystem::path& entry) {
    const auto pid = parse_number<pid_t>(entry.filename().string());
    if (!pid) return;
    const auto process = read_process_stat(*pid);
    if (process && process->parent == ::getpid()) children.insert(*pid);
  });
  return children;
}

// Tools that find a rank by its environment must not find this process.
void hide_rank() {
  constexpr const char* kRank = "RANK=";
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, kRank, std::strlen(kRank)) == 0)
      std::memset(*variable, 0, std::strlen(*variable));
  }
}

// This process must not keep pipes and memory of the worker open.
void keep_only_pidfd(int pidfd) {
  constexpr int kMost = 4096;
  ::dup2(pidfd, STDIN_FILENO);
  if (::syscall(SYS_close_range, 1U, ~0U, 0U) == 0) return;
  for (int fd = 1; fd < kMost; ++fd) ::close(fd);
}

// This process stays in the group, so its id cannot be reused. Closing all descriptors but the
// pidfd signals the worker to continue.
[[noreturn]] void kill_group_when_done(int pidfd) {
  ::prctl(PR_SET_NAME, "trainctl-group");
  hide_rank();
  keep_only_pidfd(pidfd);
  pollfd end{STDIN_FILENO, POLLIN, 0};
  while (::poll(&end, 1, -1) < 0 && errno == EINTR) {
  }
  ::kill(0, SIGKILL);
  ::_exit(0);
}

void await_close(int fd) {
  char nothing = 0;
  while (::read(fd, &nothing, 1) < 0 && errno == EINTR) {
  }
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

pid_t start_child(const ChildPlan& plan) {
  ASSERT(!plan.argv.empty());
  std::array<int, 2> ends{};
  ENSURE(resource, ::pipe2(ends.data(), O_CLOEXEC) == 0, "cannot create a pipe: {}",
         std::strerror(errno));
  const Fd reading(ends[0]);
  // Below 3, the child would overwrite it if the caller has no standard output.
  Fd writing(::fcntl(ends[1], F_DUPFD_CLOEXEC, 3));
  ::close(ends[1]);
  const PreparedChild child{
      plan,       pointers(plan.argv), pointers(plan.environment), writing.get(),
      ::getpid(), descriptor_limit(),  set_of(plan.cores)};
  const pid_t pid = ::fork();
  ENSURE(resource, pid >= 0,
         "cannot start a process: {}\nhint: close other processes or raise `ulimit -u`",
         std::strerror(errno));
  if (pid == 0) exec_child(child);
  ::setpgid(pid, pid);  // in both processes, to avoid a race
  writing.reset();
  if (const auto failure = read_failure(reading.get())) {
    ::waitpid(pid, nullptr, 0);
    throw_start_error(plan, *failure);
  }
  return pid;
}

std::vector<int> cores_for(const LaunchSpec& spec, int rank) {
  const auto here = static_cast<std::size_t>(rank - spec.first_rank());
  return here < spec.cores.size() ? spec.cores[here] : std::vector<int>();
}

std::vector<std::string> worker_environment(const LaunchSpec& spec, int rank,
                                            const InheritedFds& fds) {
  Variables variables = inherited_environment();
  const auto user_has_set = [&](const std::string& name) {
    return variables.contains(name) &&
           std::ranges::find(spec.user_variables, name) != spec.user_variables.end();
  };
  for (const auto& [name, value] : spec.environment) {
    if (!user_has_set(name)) variables[name] = value;
  }
  // Libraries read these variables while they are loaded, so they must be set before execve().
  set_wait_policy(variables, spec.omp_wait_policy);
  variables.emplace("KINETO_LOG_LEVEL", "5");
  variables.emplace("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  variables.emplace(kGpuOrder, kOrderByPci);
  if (!spec.library_path.empty()) {
    variables["LD_LIBRARY_PATH"] = prepend_folders(spec.library_path, variables["LD_LIBRARY_PATH"]);
  }
  variables[kEnvReady] = "1";
  variables[kSupervisorPid] = std::to_string(::getpid());
  const NodePlacement& place = spec.placement;
  const int local_world = place.local_world_size > 0 ? place.local_world_size : spec.ranks_here();
  variables[kRank] = std::to_string(rank);
  variables[kLocalRank] = std::to_string(place.local_rank + rank - spec.first_rank());
  variables[kWorldSize] = std::to_string(spec.world_size);
  variables[kLocalWorldSize] = std::to_string(local_world);
  variables.erase(kOwnCores);
  if (!cores_for(spec, rank).empty()) variables[kOwnCores] = "1";
  set_fd(variables, kEventFd, fds.events);
  set_fd(variables, kHeartbeatFd, fds.heartbeat);
  set_fd(variables, kStoreFd, fds.store);
  set_fd(variables, kStacksFd, fds.stacks);
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

OrphanReaper::OrphanReaper() : children_before_(own_children()) {
  ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper_before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

OrphanReaper::~OrphanReaper() {
  // Each round may orphan the next generation; a process in uninterruptible sleep is left alone.
  constexpr int kMaxRounds = 400;
  for (int round = 0; round < kMaxRounds; ++round) {
    bool found = false;
    for (const pid_t pid : own_children()) {
      if (children_before_.contains(pid)) continue;
      found = true;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, WNOHANG);
    }
    if (!found) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, subreaper_before_);
}

bool kill_group_on_exit() {
  if (::getpgrp() != ::getpid()) return false;  // started by hand: the group is the shell's
  const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!pidfd.valid()) return false;
  std::array<int, 2> hidden{-1, -1};  // closed once the child has hidden itself
  if (::pipe2(hidden.data(), O_CLOEXEC) != 0) return false;
  const Fd reader(hidden[0]);
  Fd writer(hidden[1]);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // stop signals are for the worker only
  const pid_t child = ::fork();
  if (child == 0) kill_group_when_done(pidfd.get());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  writer.reset();
  if (child > 0) await_close(reader.get());
  return child > 0;
}

}  // namespace trainctl::launch
