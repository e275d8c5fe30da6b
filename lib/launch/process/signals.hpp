#pragma once

#include "base/files.hpp"

#include <csignal>
#include <vector>

namespace trainctl::launch {

/// Makes the stop signals of a job, except ignored ones, end the process immediately with exit code
/// 130 (SIGINT) or 143, unless they are blocked or handled elsewhere.
void exit_on_stop_signals();

/// Blocks the stop signals of a job for the calling thread and delivers them (and SIGCHLD) through
/// a descriptor. The destructor drops pending signals and restores mask and dispositions. Guards
/// may be nested: an outer guard lets a command write its results after supervise() undisturbed.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Returns the stop signals that have arrived, in order, without blocking. SIGCHLD only wakes
  /// poll(). A SIGHUP from a closed terminal is dropped: the job continues without the terminal.
  std::vector<int> take();
  /// Returns whether a stop signal has reached this guard, or one nested in it, since construction.
  [[nodiscard]] bool received_stop();
  /// Returns the signal mask for children: the previous mask without the stop signals.
  [[nodiscard]] sigset_t child_mask() const;

 private:
  sigset_t watched_{};
  sigset_t mask_before_{};
  struct sigaction child_action_before_ {};
  Fd fd_;
  SignalGuard* outer_ = nullptr;
  bool received_stop_ = false;
};

/// Returns whether the innermost guard of this thread got a stop signal; false without a guard.
bool is_stop_requested();

}  // namespace trainctl::launch
