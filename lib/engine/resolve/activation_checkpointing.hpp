#pragma once

#include "engine/jobs/jobs.hpp"
#include "train/measure/auto_settings.hpp"

#include <cstdint>

namespace trainctl::engine {

/// The input for resolving trainer.activation_checkpointing in this process.
struct RecomputeContext {
  const JobSetup& setup;
  const data::Pipeline& train;
  int ranks_here = 1;             // ranks that share the host's memory
  std::uint64_t still_taken = 0;  // bytes of host memory that the loaders will allocate
};

/// Returns trainer.activation_checkpointing and a reason. For `auto`, measures steps with few
/// samples if the model has blocks. Rank 0 measures for all, against the smallest free memory of
/// any rank. Draws random numbers: set the seed afterward.
train::RecomputeChoice decide_recompute(const RecomputeContext& context,
                                        dist::Communicator& communicator);

/// Returns the value that replaces `auto`.
spec::ActivationCheckpointing mode_of(const train::RecomputeChoice& choice);

}  // namespace trainctl::engine
