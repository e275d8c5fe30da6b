#include "launch/process/orphans.hpp"

#include "base/files.hpp"
#include "base/machine/procfs.hpp"
#include "base/numbers.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

namespace trainctl::launch {
namespace {

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
