#include "launch/supervise/hang_detection.hpp"

#include "base/statistics.hpp"
#include "base/strings.hpp"
#include "launch/supervise/rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace trainctl::launch {
namespace {

using events::Phase;

constexpr double kShortestLimit = 60;
constexpr double kHangSteps = 10;
constexpr double kOtherLimit = 600;  // for phases without steps
constexpr double kLoads = 10;
constexpr double kStarts = 10;
constexpr std::size_t kRemembered = 64;

const char* activity(Phase phase) {
  switch (phase) {
    case Phase::train: return "in training";
    case Phase::validate: return "in validation";
    case Phase::checkpoint: return "while saving";
    case Phase::shutdown: return "during shutdown";
    case Phase::startup: return "during startup";
    case Phase::load: return "while loading data";
  }
  return "in an unknown phase";
}

}  // namespace

bool may_load(Phase phase) { return phase == Phase::startup || phase == Phase::load; }

bool takes_steps(Phase phase) { return phase == Phase::train || phase == Phase::validate; }

std::string sentence_of(const Silence& silence) {
  const bool starts = silence.phase == Phase::startup && !silence.stopped;
  const bool by_option = silence.stopped || takes_steps(silence.phase);
  std::string text = fmt::format(
      "{} for {} {}; the limit is {}{}",
      silence.stopped ? "it has been stopped by a signal" : "it has made no progress",
      human_duration(silence.seconds), activity(silence.phase), human_duration(silence.limit_s),
      by_option ? " (trainer.hang_timeout)"
      : starts  ? " (derived from trainer.hang_timeout)"
                : "");
  const auto& [name, under_way] = silence.collective;
  if (name.empty()) return text;
  return text + fmt::format("; {} '{}'",
                            under_way ? "it waits for other ranks in the collective"
                                      : "its last collective was",
                            name);
}

void Pulse::see(const events::Heartbeat& page, double now) {
  const std::int64_t loaded = page.loaded.load(std::memory_order_relaxed);
  if (loaded != loaded_) loaded_at_ = now;
  loaded_ = loaded;
  const std::int64_t stamp = page.monotonic_ns.load(std::memory_order_acquire);
  if (stamp == stamp_) return;
  const auto phase = static_cast<Phase>(page.phase.load(std::memory_order_relaxed));
  // The time before the first step counts too, since the second step may take as long.
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
  return hang_timeout_s_ ? *hang_timeout_s_ : std::max(kShortestLimit, kHangSteps * step_s());
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

namespace {

/// Returns the rank that a rank in a collective waits for: its last heartbeat is about as old and
/// it is not in a collective.
RankState* awaited_by(const Silence& silence, std::span<RankState* const> ranks, double now) {
  constexpr double kAsLong = 0.5;
  if (!silence.collective.under_way) return nullptr;
  RankState* awaited = nullptr;
  double longest = kAsLong * silence.seconds;
  for (RankState* rank : ranks) {
    const double seconds = rank->pulse().silent_s(now);
    if (!rank->is_busy() || seconds <= longest) continue;
    longest = seconds;
    awaited = rank;
  }
  return awaited;
}

SilentRank longest_silent(std::span<RankState* const> ranks, double now) {
  const bool awaited =
      std::ranges::any_of(ranks, [](const auto* rank) { return rank->is_between_steps(); });
  const bool gets_on = std::ranges::any_of(
      ranks, [&](const auto* rank) { return rank->is_between_steps() && !rank->silence(now); });
  SilentRank first;
  for (RankState* rank : ranks) {
    const auto silence = rank->silence(now);
    if (!silence || silence->seconds <= first.silence.seconds) continue;
    if (awaited && takes_steps(silence->phase)) continue;
    if (gets_on && may_load(silence->phase)) continue;  // its first step needs the others
    first = {rank, *silence};
  }
  return first;
}

struct Stopped {
  bool any = false;
  std::optional<SilentRank> blamed;  // the one that exceeds its limit most
};

Stopped stopped_ranks(std::span<RankState* const> ranks, double now) {
  Stopped found;
  double longest = 0;
  for (RankState* rank : ranks) {
    const auto stopped = rank->stopped(now);
    if (!stopped) continue;
    found.any = true;
    const double over = stopped->seconds - stopped->limit_s;
    if (over <= longest) continue;
    longest = over;
    found.blamed = SilentRank{rank, *stopped};
  }
  return found;
}

}  // namespace

std::optional<SilentRank> silent_rank(std::span<RankState* const> ranks, double now) {
  const Stopped stopped = stopped_ranks(ranks, now);
  if (stopped.any) return stopped.blamed;
  const SilentRank first = longest_silent(ranks, now);
  if (first.rank == nullptr) return std::nullopt;
  if (RankState* other = awaited_by(first.silence, ranks, now))
    return SilentRank{other, other->standstill(now)};
  return first;
}

}  // namespace trainctl::launch
