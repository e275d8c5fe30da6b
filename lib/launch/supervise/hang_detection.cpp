#include "launch/supervise/hang_detection.hpp"

#include "base/statistics.hpp"
#include "base/strings.hpp"
#include "launch/supervise/rank.hpp"

#include <fmt/format.h>

namespace trainctl::launch {
namespace {

using events::Phase;

constexpr double kMinLimit = 60;
constexpr double kStepFactor = 10;
constexpr double kPhaseLimit = 600;  // for phases without steps
constexpr double kLoadFactor = 10;
constexpr double kStartupFactor = 10;
constexpr std::size_t kMaxIntervals = 64;

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

/// Returns the rank that a rank in a collective waits for: its last heartbeat is about as old and
/// it is not in a collective.
RankState* find_awaited_rank(const Stall& stall, std::span<RankState* const> ranks, double now) {
  constexpr double kAsLong = 0.5;
  if (!stall.collective.in_progress) return nullptr;
  RankState* awaited = nullptr;
  double longest = kAsLong * stall.seconds;
  for (RankState* rank : ranks) {
    const double seconds = rank->monitor().stalled_s(now);
    if (!rank->is_busy() || seconds <= longest) continue;
    longest = seconds;
    awaited = rank;
  }
  return awaited;
}

HungRank longest_stalled(std::span<RankState* const> ranks, double now) {
  const bool awaited =
      std::ranges::any_of(ranks, [](const auto* rank) { return rank->is_between_steps(); });
  const bool other_progresses = std::ranges::any_of(
      ranks, [&](const auto* rank) { return rank->is_between_steps() && !rank->stall(now); });
  HungRank first;
  for (RankState* rank : ranks) {
    const auto stall = rank->stall(now);
    if (!stall || stall->seconds <= first.stall.seconds) continue;
    if (awaited && takes_steps(stall->phase)) continue;
    if (other_progresses && may_load(stall->phase)) continue;  // its first step needs the others
    first = {rank, *stall};
  }
  return first;
}

struct StoppedRanks {
  bool any = false;
  std::optional<HungRank> hung;  // the one that exceeds its limit most
};

StoppedRanks stopped_ranks(std::span<RankState* const> ranks, double now) {
  StoppedRanks found;
  double longest = 0;
  for (RankState* rank : ranks) {
    const auto stopped = rank->stall_if_stopped(now);
    if (!stopped) continue;
    found.any = true;
    const double over = stopped->seconds - stopped->limit_s;
    if (over <= longest) continue;
    longest = over;
    found.hung = HungRank{rank, *stopped};
  }
  return found;
}

}  // namespace

bool may_load(Phase phase) { return phase == Phase::startup || phase == Phase::load; }

bool takes_steps(Phase phase) { return phase == Phase::train || phase == Phase::validate; }

std::string describe_stall(const Stall& stall) {
  const bool starts = stall.phase == Phase::startup && !stall.stopped;
  const bool by_option = stall.stopped || takes_steps(stall.phase);
  std::string text = fmt::format(
      "{} for {} {}; the limit is {}{}",
      stall.stopped ? "it has been suspended (SIGSTOP)" : "it has made no progress",
      human_duration(stall.seconds), activity(stall.phase), human_duration(stall.limit_s),
      by_option ? " (trainer.hang_timeout)"
      : starts  ? " (derived from trainer.hang_timeout)"
                : "");
  const auto& [name, in_progress] = stall.collective;
  if (name.empty()) return text;
  return text + fmt::format("; {} '{}'",
                            in_progress ? "it waits for other ranks in the collective"
                                        : "its last collective was",
                            name);
}

void HeartbeatMonitor::update(const events::Heartbeat& page, double now) {
  const std::int64_t loaded = page.loaded.load(std::memory_order_relaxed);
  if (loaded != loaded_) loaded_at_ = now;
  loaded_ = loaded;
  const std::int64_t stamp = page.monotonic_ns.load(std::memory_order_acquire);
  if (stamp == stamp_) return;
  const auto phase = static_cast<Phase>(page.phase.load(std::memory_order_relaxed));
  // The time before the first step counts too, since the second step may take as long.
  if (takes_steps(phase) && (takes_steps(phase_) || (intervals_.empty() && stamp_ != 0)))
    intervals_.push_back(now - heartbeat_at_);
  if (intervals_.size() > kMaxIntervals) intervals_.pop_front();
  has_stepped_ = has_stepped_ || takes_steps(phase);
  if (phase == Phase::checkpoint && phase_ != phase) save_began_at_ = now;
  if (phase_ == Phase::checkpoint)
    longest_save_s_ = std::max(longest_save_s_, now - save_began_at_);
  if (phase == Phase::load && phase_ != phase) load_began_at_ = now;
  if (phase_ == Phase::load) longest_load_s_ = std::max(longest_load_s_, now - load_began_at_);
  stamp_ = stamp;
  phase_ = phase;
  heartbeat_at_ = now;
}

double HeartbeatMonitor::step_s() const {
  return intervals_.empty() ? 0 : median(std::vector<double>(intervals_.begin(), intervals_.end()));
}

double HeartbeatMonitor::step_limit_s() const {
  return hang_timeout_s_ ? *hang_timeout_s_ : std::max(kMinLimit, kStepFactor * step_s());
}

std::optional<double> HeartbeatMonitor::limit_s() const {
  if (takes_steps(phase_)) return step_limit_s();
  const double limit = std::max(kPhaseLimit, hang_timeout_s_.value_or(0));
  if (!may_load(phase_)) return limit;
  if (loaded_ == 0) return std::nullopt;
  if (phase_ == Phase::load) return std::max(limit, kLoadFactor * longest_load_s_);
  return hang_timeout_s_ ? std::min(limit, kStartupFactor * *hang_timeout_s_) : limit;
}

double HeartbeatMonitor::stalled_s(double now) const {
  return now - (may_load(phase_) ? std::max(heartbeat_at_, loaded_at_) : heartbeat_at_);
}

std::optional<Stall> HeartbeatMonitor::stall(double now) const {
  const double seconds = stalled_s(now);
  const auto limit = limit_s();
  if (!limit || seconds <= *limit) return std::nullopt;
  return Stall{seconds, *limit, phase_};
}

std::optional<HungRank> find_hung_rank(std::span<RankState* const> ranks, double now) {
  const StoppedRanks stopped = stopped_ranks(ranks, now);
  if (stopped.any) return stopped.hung;
  const HungRank first = longest_stalled(ranks, now);
  if (first.rank == nullptr) return std::nullopt;
  if (RankState* other = find_awaited_rank(first.stall, ranks, now))
    return HungRank{other, other->current_stall(now)};
  return first;
}

}  // namespace trainctl::launch
