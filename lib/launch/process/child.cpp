#include "launch/process/child.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace trainctl::launch {
namespace {

enum class Stage : int { input, log, exec };

// Sent through a pipe that exec closes.
struct StartFailure {
  Stage stage;
  int cause;
};

struct Prepared {
  const ChildPlan& plan;
  std::vector<char*> argv;
  std::vector<char*> environment;
  int report_fd;
  pid_t parent;
  int max_fds;
  cpu_set_t cores;  // none: any
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
  constexpr rlim_t kMost = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return static_cast<int>(kMost);
  return static_cast<int>(limit.rlim_cur < kMost ? limit.rlim_cur : kMost);
}

// ---- From here to exec only async-signal-safe calls are allowed: other threads' locks may be held
// for ever.

[[noreturn]] void give_up(const Prepared& child, Stage stage) {
  const StartFailure failure{stage, errno};
  const ssize_t ignored = ::write(child.report_fd, &failure, sizeof failure);
  static_cast<void>(ignored);
  ::_exit(127);
}

void close_others_on_exec(const Prepared& child) {
  constexpr unsigned kFirst = 3;
  if (::syscall(SYS_close_range, kFirst, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */) != 0) {
    for (int fd = kFirst; fd < child.max_fds; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  const InheritedFds& fds = child.plan.fds;
  for (const int fd : {fds.events, fds.heartbeat, fds.store, fds.stacks}) {
    if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
  }
}

void redirect(const Prepared& child) {
  const int input = ::open("/dev/null", O_RDONLY);
  if (input < 0 || ::dup2(input, STDIN_FILENO) < 0) give_up(child, Stage::input);
  // O_NONBLOCK: a pipe that nobody reads is an error. It means nothing to a file.
  const int log =
      ::open(child.plan.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK, 0644);
  if (log < 0 || ::dup2(log, STDOUT_FILENO) < 0 || ::dup2(log, STDERR_FILENO) < 0)
    give_up(child, Stage::log);
}

[[noreturn]] void become(const Prepared& child) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) ::_exit(127);  // it died before the line above
  ::setpgid(0, 0);
  // The kernel refuses a set without a core that is allowed: then any of them will do.
  ::sched_setaffinity(0, sizeof child.cores, &child.cores);
  redirect(child);
  close_others_on_exec(child);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  // Not SIGHUP: under nohup workers ignore it as well; exec resets what is not ignored.
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE, SIGQUIT}) {
    ::sigaction(signal, &standard, nullptr);
  }
  ::pthread_sigmask(SIG_SETMASK, &child.plan.mask, nullptr);
  ::execve(child.argv[0], child.argv.data(), child.environment.data());
  give_up(child, Stage::exec);
}

// ---- Parent again.

[[noreturn]] void refuse(const ChildPlan& plan, const StartFailure& failure) {
  const char* cause = std::strerror(failure.cause);
  switch (failure.stage) {
    case Stage::input:
      throw Error(ErrorKind::resource,
                  fmt::format("cannot open /dev/null for a worker: {}", cause));
    case Stage::log:
      throw Error(ErrorKind::resource,
                  fmt::format("cannot write {}: {}", printable(plan.log_path), cause));
    case Stage::exec: break;
  }
  throw Error(ErrorKind::resource,
              fmt::format("cannot start the worker {}: {}", printable(plan.argv[0]), cause));
}

// The pipe ends without a word where exec succeeded.
std::optional<StartFailure> read_failure(int fd) {
  StartFailure failure{};
  ssize_t count = 0;
  do {
    count = ::read(fd, &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof failure)) return std::nullopt;
  return failure;
}

}  // namespace

pid_t start_child(const ChildPlan& plan) {
  ASSERT(!plan.argv.empty());
  std::array<int, 2> ends{};
  ENSURE(resource, ::pipe2(ends.data(), O_CLOEXEC) == 0, "cannot make a pipe: {}",
         std::strerror(errno));
  const Fd reading(ends[0]);
  // Above 2, or the child would overwrite it where the caller has no standard output.
  Fd writing(::fcntl(ends[1], F_DUPFD_CLOEXEC, 3));
  ::close(ends[1]);
  const Prepared child{plan,       pointers(plan.argv), pointers(plan.environment), writing.get(),
                       ::getpid(), descriptor_limit(),  set_of(plan.cores)};
  const pid_t pid = ::fork();
  ENSURE(resource, pid >= 0, "cannot start a process: {}; close others or raise `ulimit -u`",
         std::strerror(errno));
  if (pid == 0) become(child);
  ::setpgid(pid, pid);  // whoever comes first
  writing.reset();
  if (const auto failure = read_failure(reading.get())) {
    ::waitpid(pid, nullptr, 0);
    refuse(plan, *failure);
  }
  return pid;
}

}  // namespace trainctl::launch
