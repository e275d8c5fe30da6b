#include "launch/supervise/shutdown.hpp"

#include <algorithm>

namespace trainctl::launch {
namespace {

constexpr double kMinStopGrace = 30;
constexpr double kStopSteps = 3;
constexpr double kStopSaves = 2;
constexpr double kRepeatS = 0.2;
constexpr double kMaxSaveTime = 600;
constexpr double kMaxGraceFactor = 10;

}  // namespace

double default_stop_grace(double step_s, double save_s) {
  return std::max(kMinStopGrace, kStopSteps * step_s + kStopSaves * save_s);
}

ShutdownController::Action ShutdownController::handle_signal(int signal, double now,
                                                             double stop_grace_s) {
  if (supervisor_signal_) {
    const bool repeated = signal == *supervisor_signal_ && now - supervisor_signal_at_ < kRepeatS;
    return repeated ? Action::none : Action::kill;
  }
  if (has_begun() && !signal_) return Action::kill;
  supervisor_signal_ = signal;
  supervisor_signal_at_ = now;
  if (!has_begun()) {
    begin(signal, now, stop_grace_s);
    return Action::stop;
  }
  signal_ = signal;  // more specific than the rank's exit code
  return Action::none;
}

void ShutdownController::begin_stop(int signal, double now, double stop_grace_s) {
  if (!has_begun()) begin(signal, now, stop_grace_s);
}

void ShutdownController::begin(int signal, double now, double stop_grace_s) {
  signal_ = signal;
  stop_grace_s_ = stop_grace_s;
  began_at_ = now;
  kill_at_ = now + stop_grace_s;
}

void ShutdownController::shorten(double now) {
  if (is_shortened_) return;
  is_shortened_ = true;
  kill_at_ = std::min(kill_at_.value_or(now + grace_s_), now + grace_s_);
}

void ShutdownController::extend(double progress_at) {
  if (!has_begun() || is_shortened_) return;
  const double longest = std::max(kMaxSaveTime, kMaxGraceFactor * stop_grace_s_);
  kill_at_ = std::max(*kill_at_, std::min(progress_at + stop_grace_s_, began_at_ + longest));
}

}  // namespace trainctl::launch
