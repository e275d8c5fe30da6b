#pragma once

#include <cstdint>
#include <vector>

namespace trainctl::study {

/// Of a run: global steps, counted from 1.
struct StepRange {
  std::int64_t first = 1;
  std::int64_t last = 1;
};

/// Steps at which runs are killed: all different, the same for the same seed. Throws Error(config)
/// where the range has fewer steps than there are kills.
std::vector<std::int64_t> draw_kill_points(std::uint64_t seed, int kills, StepRange range);

/// Steps from checkpoint to checkpoint, so that a run has about ten of them, and not all of them
/// at the ends of its epochs.
std::int64_t checkpoint_interval(std::int64_t steps, std::int64_t steps_per_epoch);

}  // namespace trainctl::study
