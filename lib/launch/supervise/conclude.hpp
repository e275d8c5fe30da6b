#pragma once

#include "launch/supervise/rank_state.hpp"
#include "launch/supervise/supervisor.hpp"

#include <optional>
#include <span>

namespace trainctl::launch {

/// All that a supervisor knows when no rank is left.
struct JobState {
  const LaunchSpec& spec;
  std::span<RankState* const> ranks;  // those of other nodes included
  std::optional<int> stop_signal;
  std::optional<int> asked_for_stacks;  // the rank of another node that is to blame for a hang
};

/// Judges the end of the job; what ranks have left in the log folder speaks for them: a last word
/// where nothing else tells the reason, stacks, the tail of a log.
Outcome conclude(const JobState& job);

/// "; stacks of its threads: logs/rank_2.stacks.txt".
std::string stacks_note(const LaunchSpec& spec, int rank);

}  // namespace trainctl::launch
