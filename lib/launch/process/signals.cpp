#include "launch/process/signals.hpp"

#include "base/error.hpp"
#include "log/log.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trainctl::launch {
namespace {

sigset_t job_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD}) sigaddset(&set, signal);
  // Blocked signals are delivered through the descriptor even if they are ignored, so nohup would
  // not protect the job.
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
    sigaddset(&set, SIGHUP);
  return set;
}

extern "C" void exit_immediately(int signal) {
  ::_exit(static_cast<int>(signal == SIGINT ? ErrorKind::interrupted : ErrorKind::terminated));
}

/// Returns whether a standard descriptor is a terminal that was closed.
bool terminal_is_lost() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    struct stat info {};
    pollfd state{fd, 0, 0};
    if (::fstat(fd, &info) != 0 || !S_ISCHR(info.st_mode)) continue;
    if (::poll(&state, 1, 0) == 1 && (state.revents & POLLHUP) != 0) return true;
  }
  return false;
}

thread_local SignalGuard* innermost = nullptr;

}  // namespace

void exit_on_stop_signals() {
  struct sigaction action {};
  action.sa_handler = exit_immediately;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP}) {
    struct sigaction before {};
    const bool ignored = ::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!ignored) ::sigaction(signal, &action, nullptr);
  }
}

SignalGuard::SignalGuard() : watched_(job_signals()) {
  fd_ = Fd(::signalfd(-1, &watched_, SFD_CLOEXEC | SFD_NONBLOCK));
  ENSURE(resource, fd_.valid(), "cannot watch signals: {}", std::strerror(errno));
  // If SIGCHLD is ignored, the kernel reaps children itself and their exit status is lost.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, &child_action_before_);
  ::pthread_sigmask(SIG_BLOCK, &watched_, &mask_before_);
  outer_ = std::exchange(innermost, this);
}

SignalGuard::~SignalGuard() {
  const bool nested = sigismember(&mask_before_, SIGTERM) == 1;
  if (!nested) take();
  innermost = outer_;
  ::sigaction(SIGCHLD, &child_action_before_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

std::vector<int> SignalGuard::take() {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGHUP && terminal_is_lost()) {
      log::get().warn("terminal closed: the run continues; stop it with `kill {}`", ::getpid());
      continue;
    }
    if (info.ssi_signo != SIGCHLD) signals.push_back(static_cast<int>(info.ssi_signo));
  }
  for (SignalGuard* guard = this; guard != nullptr && !signals.empty(); guard = guard->outer_)
    guard->received_stop_ = true;
  return signals;
}

bool SignalGuard::received_stop() {
  take();
  return received_stop_;
}

bool is_stop_requested() { return innermost != nullptr && innermost->received_stop(); }

sigset_t SignalGuard::child_mask() const {
  sigset_t mask = mask_before_;
  for (int signal = 1; signal < NSIG; ++signal) {
    if (sigismember(&watched_, signal) == 1) sigdelset(&mask, signal);
  }
  return mask;
}

}  // namespace trainctl::launch
