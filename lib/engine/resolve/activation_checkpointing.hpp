#pragma once

#include "engine/tasks/tasks.hpp"
#include "train/measure/auto_settings.hpp"

#include <cstdint>

namespace trainctl::engine {

/// What decides whether this process computes the blocks of its model again.
struct RecomputeContext {
  const TaskSetup& setup;
  const data::Pipeline& train;
  int ranks_here = 1;             // that share the memory of the host
  std::uint64_t still_taken = 0;  // bytes of the host that loading is going to take
};

/// Returns trainer.activation_checkpointing; for `auto` what steps with few samples tell, which
/// only a model of blocks takes, and why. Rank 0 measures for all, against the least memory that
/// one has. Draws random numbers: seed afterwards.
train::RecomputeChoice decide_recompute(const RecomputeContext& context,
                                        dist::Communicator& communicator);

/// What `auto` has become.
spec::ActivationCheckpointing mode_of(const train::RecomputeChoice& choice);

}  // namespace trainctl::engine
