#pragma once

#include "base/files.hpp"

#include <csignal>
#include <vector>

namespace trainctl::launch {

/// From here on the signals that stop a job, but those that are ignored, end the process at once
/// with 130 (SIGINT) or 143, where nothing blocks or handles them.
void end_on_stop_signals();

/// Blocks the signals that stop a job, for the calling thread, and delivers them (and SIGCHLD)
/// through a descriptor. Those that arrived meanwhile are dropped at the end, then mask and
/// dispositions are as before. Guards may be nested: an outer one lets a verb write its results
/// after supervise() without being interrupted.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The stop signals that have arrived, in order; does not wait. SIGCHLD only wakes. A SIGHUP that
  /// came because the terminal went away is dropped: what runs continues without it.
  std::vector<int> take();
  /// Whether a stop signal has come since it was made, here or to a guard nested in this one.
  [[nodiscard]] bool has_heard();
  /// What a child starts with: the mask of before, without the stop signals.
  [[nodiscard]] sigset_t child_mask() const;

 private:
  sigset_t watched_{};
  sigset_t mask_before_{};
  struct sigaction child_action_before_ {};
  Fd fd_;
  SignalGuard* outer_ = nullptr;
  bool heard_ = false;
};

/// Whether the innermost guard of this thread has heard a stop signal; false without a guard.
bool stop_is_asked();

}  // namespace trainctl::launch
