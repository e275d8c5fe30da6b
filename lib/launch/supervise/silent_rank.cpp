#include "launch/supervise/silent_rank.hpp"

#include <algorithm>

namespace trainctl::launch {
namespace {

/// The one that a rank in a collective waits for has stamped about as long ago and is in none.
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
    if (gets_on && may_load(silence->phase)) continue;  // its first step meets the other's
    first = {rank, *silence};
  }
  return first;
}

struct Stopped {
  bool any = false;
  std::optional<SilentRank> blamed;  // the one that has stood longest past its limit
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
