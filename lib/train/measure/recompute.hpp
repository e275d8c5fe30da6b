#pragma once

#include "dist/communicator.hpp"

#include <cstdint>
#include <string>

namespace trainctl::train {

/// What decides whether blocks are computed again, in bytes.
struct StepMemory {
  std::int64_t activations = 0;  // of a step with the run's batch
  std::int64_t rest = 0;         // all else that the step needs: weights, gradients, the batch
  std::int64_t free = 0;         // before any of it is there
};

struct RecomputeChoice {
  bool recomputes = false;
  std::string why;  // "activations take about 9.1 GiB of 6.0 GiB free: blocks are recomputed";
                    // empty: it was asked for
};

/// Blocks are computed again only where the step would not fit otherwise.
RecomputeChoice choose_recompute(const StepMemory& memory);

/// The smallest of what the ranks bring, on each of them.
std::int64_t least_of_ranks(std::int64_t mine, dist::Communicator& communicator);

}  // namespace trainctl::train
