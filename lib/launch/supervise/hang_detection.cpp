#include "launch/supervise/hang_detection.hpp"

#include "base/statistics.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace trainctl::launch {
namespace {

using events::Phase;

constexpr double kShortestLimit = 60;
constexpr double kSteps = 10;
constexpr double kOtherLimit = 600;  // of what is no step
constexpr double kLoads = 10;
constexpr double kStarts = 10;
constexpr std::size_t kRemembered = 64;

const char* activity(Phase phase) {
  switch (phase) {
    case Phase::train: return "in training";
    case Phase::validate: return "in validation";
    case Phase::checkpoint: return "while saving";
    case Phase::shutdown: return "at its end";
    case Phase::startup: return "at its start";
    case Phase::load: return "while loading";
  }
  return "in an unknown phase";
}

}  // namespace

bool may_load(Phase phase) { return phase == Phase::startup || phase == Phase::load; }

bool takes_steps(Phase phase) { return phase == Phase::train || phase == Phase::validate; }

std::string sentence_of(const Silence& silence) {
  const bool starts = silence.phase == Phase::startup && !silence.stopped;
  const bool by_option = silence.stopped || takes_steps(silence.phase);
  std::string text = fmt::format("{} for {} {}, where the limit is {}{}",
                                 silence.stopped ? "a signal has stopped it, and it has not moved"
                                                 : "it has shown no sign of life",
                                 human_duration(silence.seconds), activity(silence.phase),
                                 human_duration(silence.limit_s),
                                 by_option ? " (trainer.hang_timeout)"
                                 : starts  ? " (it follows from trainer.hang_timeout)"
                                           : "");
  const auto& [name, under_way] = silence.collective;
  if (name.empty()) return text;
  return text + fmt::format("; {} '{}'",
                            under_way ? "it waits for the other ranks in"
                                      : "its last exchange with the other ranks was",
                            name);
}

void Pulse::see(const events::Heartbeat& page, double now) {
  const std::int64_t loaded = page.loaded.load(std::memory_order_relaxed);
  if (loaded != loaded_) loaded_at_ = now;
  loaded_ = loaded;
  const std::int64_t stamp = page.monotonic_ns.load(std::memory_order_acquire);
  if (stamp == stamp_) return;
  const auto phase = static_cast<Phase>(page.phase.load(std::memory_order_relaxed));
  // The first step counts, too: the second may be as long.
  if (takes_steps(phase) && (takes_steps(phase_) || (gaps_.empty() && stamp_ != 0)))
    gaps_.push_back(now - seen_at_);
  if (gaps_.size() > kRemembered) gaps_.pop_front();
  has_stepped_ = has_stepped_ || takes_steps(phase);
  if (phase == Phase::checkpoint && phase_ != phase) saves_since_ = now;
  if (phase_ == Phase::checkpoint) longest_save_s_ = std::max(longest_save_s_, now - saves_since_);
  if (phase == Phase::load && phase_ != phase) loads_since_ = now;
  if (phase_ == Phase::load) longest_load_s_ = std::max(longest_load_s_, now - loads_since_);
  stamp_ = stamp;
  phase_ = phase;
  seen_at_ = now;
}

double Pulse::step_s() const {
  return gaps_.empty() ? 0 : median(std::vector<double>(gaps_.begin(), gaps_.end()));
}

double Pulse::step_limit_s() const {
  return hang_timeout_s_ ? *hang_timeout_s_ : std::max(kShortestLimit, kSteps * step_s());
}

std::optional<double> Pulse::limit_s() const {
  if (takes_steps(phase_)) return step_limit_s();
  const double least = std::max(kOtherLimit, hang_timeout_s_.value_or(0));
  if (!may_load(phase_)) return least;
  if (loaded_ == 0) return std::nullopt;
  if (phase_ == Phase::load) return std::max(least, kLoads * longest_load_s_);
  return hang_timeout_s_ ? std::min(least, kStarts * *hang_timeout_s_) : least;
}

double Pulse::silent_s(double now) const {
  return now - (may_load(phase_) ? std::max(seen_at_, loaded_at_) : seen_at_);
}

std::optional<Silence> Pulse::silence(double now) const {
  const double seconds = silent_s(now);
  const auto limit = limit_s();
  if (!limit || seconds <= *limit) return std::nullopt;
  return Silence{seconds, *limit, phase_};
}

}  // namespace trainctl::launch
