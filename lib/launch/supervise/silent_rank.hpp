#pragma once

#include "launch/supervise/rank_state.hpp"

#include <optional>
#include <span>

namespace trainctl::launch {

/// Who hangs, and for how long.
struct SilentRank {
  RankState* rank = nullptr;
  Silence silence;
};

/// Ranks wait for each other, so one that hangs silences all: the one that fell silent first is to
/// blame, but none that may be waiting for one that saves or loads, or waits in a collective to
/// which another has not come. While a signal has stopped one, no other is to blame, and of several
/// the one that has stood longest past its limit. Nothing where nobody has been silent for too
/// long.
std::optional<SilentRank> silent_rank(std::span<RankState* const> ranks, double now);

}  // namespace trainctl::launch
