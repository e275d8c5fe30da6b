#pragma once

#include <optional>

namespace trainctl::launch {

/// What ranks have for a save and their end after a stop signal, in seconds, where nobody has said:
/// half a minute, or three steps (one has begun, validation may come between) and twice the longest
/// save so far if that is more. `step_s`: of all that comes between two looks at the signal:
/// batches whose gradients are accumulated, steps between which ranks on GPUs do not agree.
double stop_allowance(double step_s, double save_s);

/// Why a job ends, and until when its ranks may live. Pure: times are the supervisor's own.
class Ending {
 public:
  /// What a stop signal asks of the supervisor: end the ranks, nothing new, or kill them.
  enum class Demand { stop, nothing, kill };

  /// `grace_s`: what is left to the others where waiting for them is of no use: a rank has failed.
  explicit Ending(double grace_s) : grace_s_(grace_s) {}

  /// The supervisor got a stop signal. The first stops the job, in `allowance_s`; a second kills,
  /// and so does one while the job ends because of a failure. The same one again within 0.2 s is an
  /// echo of the first: `timeout` and closed terminals send theirs twice.
  Demand ask(int signal, double now, double allowance_s);
  /// A rank has left because it was asked to stop itself: so is the job. A signal of the
  /// supervisor's own that comes later is its first.
  void follow(int signal, double now, double allowance_s);
  /// A rank has failed, or has left without a checkpoint: the others are to go at once.
  void hurry(double now);
  /// A rank got on with saving at `seen_at`: it may go on, unless the others are in a hurry. Ten
  /// minutes in all, or ten times what was allowed if that is more.
  void extend(double seen_at);

  [[nodiscard]] bool has_begun() const { return kill_at_.has_value(); }
  [[nodiscard]] bool in_hurry() const { return in_hurry_; }
  [[nodiscard]] bool is_due(double now) const { return kill_at_ && now >= *kill_at_; }
  /// That asked for it; nothing: a failure did.
  [[nodiscard]] std::optional<int> signal() const { return signal_; }

 private:
  void begin(int signal, double now, double allowance_s);

  double grace_s_;
  double allowance_s_ = 0;
  double begun_at_ = 0;
  std::optional<int> signal_;
  std::optional<int> own_signal_;  // that the supervisor got itself
  double own_signal_at_ = 0;
  std::optional<double> kill_at_;
  bool in_hurry_ = false;
};

}  // namespace trainctl::launch
