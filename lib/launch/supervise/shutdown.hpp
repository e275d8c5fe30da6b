#pragma once

#include <optional>

namespace trainctl::launch {

/// Returns the default time, in seconds, that ranks get to save and exit after a stop signal: half
/// a minute, or three steps (one is running, validation may follow) plus twice the longest save so
/// far if that is more. `step_s` is the time between two checks for the signal, which includes all
/// batches of a gradient accumulation and steps between which GPU ranks do not synchronize.
double default_stop_grace(double step_s, double save_s);

/// Tracks why a job ends, and until when its ranks may run. It has no side effects; the caller
/// passes all times, in seconds of a steady clock.
class ShutdownController {
 public:
  /// The response of the supervisor to a stop signal: end the ranks, do nothing, or kill them.
  enum class Action { stop, none, kill };

  /// `grace_s` is the time the other ranks get after a failure, when waiting for them is of no use.
  explicit ShutdownController(double grace_s) : grace_s_(grace_s) {}

  /// Handles a stop signal of the supervisor. The first one stops the job within `stop_grace_s`; a
  /// second one kills, and so does one while the job ends because of a failure. The same signal
  /// within 0.2 s counts as a repetition: `timeout` and closed terminals send theirs twice.
  Action handle_signal(int signal, double now, double stop_grace_s);
  /// Stops the job because a rank has exited on a stop signal. A later signal of the
  /// supervisor counts as its first.
  void begin_stop(int signal, double now, double stop_grace_s);
  /// Shortens the time, since a rank has failed or has exited without a checkpoint.
  void shorten(double now);
  /// Extends the time, since a rank made progress with saving at `progress_at`, unless shorten()
  /// was called. The limit is ten minutes in total, or ten times the grace period if that is more.
  void extend(double progress_at);

  [[nodiscard]] bool has_begun() const { return kill_at_.has_value(); }
  [[nodiscard]] bool is_shortened() const { return is_shortened_; }
  [[nodiscard]] bool is_due(double now) const { return kill_at_ && now >= *kill_at_; }
  /// Returns the stop signal; empty if a failure ends the job.
  [[nodiscard]] std::optional<int> signal() const { return signal_; }

 private:
  void begin(int signal, double now, double stop_grace_s);

  double grace_s_;
  double stop_grace_s_ = 0;
  double began_at_ = 0;
  std::optional<int> signal_;
  std::optional<int> supervisor_signal_;  // received by the supervisor itself
  double supervisor_signal_at_ = 0;
  std::optional<double> kill_at_;
  bool is_shortened_ = false;
};

}  // namespace trainctl::launch
