#include "launch/supervise/shutdown.hpp"

#include <algorithm>

namespace trainctl::launch {
namespace {

constexpr double kShortestAllowance = 30;
constexpr double kSteps = 3;
constexpr double kSaves = 2;
constexpr double kEchoS = 0.2;
constexpr double kLongestSaving = 600;
constexpr double kMostAllowances = 10;

}  // namespace

double stop_allowance(double step_s, double save_s) {
  return std::max(kShortestAllowance, kSteps * step_s + kSaves * save_s);
}

Ending::Demand Ending::ask(int signal, double now, double allowance_s) {
  if (own_signal_) {
    const bool echo = signal == *own_signal_ && now - own_signal_at_ < kEchoS;
    return echo ? Demand::nothing : Demand::kill;
  }
  if (has_begun() && !signal_) return Demand::kill;
  own_signal_ = signal;
  own_signal_at_ = now;
  if (!has_begun()) {
    begin(signal, now, allowance_s);
    return Demand::stop;
  }
  signal_ = signal;  // more specific than the rank's exit code
  return Demand::nothing;
}

void Ending::follow(int signal, double now, double allowance_s) {
  if (!has_begun()) begin(signal, now, allowance_s);
}

void Ending::begin(int signal, double now, double allowance_s) {
  signal_ = signal;
  allowance_s_ = allowance_s;
  begun_at_ = now;
  kill_at_ = now + allowance_s;
}

void Ending::hurry(double now) {
  if (in_hurry_) return;
  in_hurry_ = true;
  kill_at_ = std::min(kill_at_.value_or(now + grace_s_), now + grace_s_);
}

void Ending::extend(double seen_at) {
  if (!has_begun() || in_hurry_) return;
  const double longest = std::max(kLongestSaving, kMostAllowances * allowance_s_);
  kill_at_ = std::max(*kill_at_, std::min(seen_at + allowance_s_, begun_at_ + longest));
}

}  // namespace trainctl::launch
