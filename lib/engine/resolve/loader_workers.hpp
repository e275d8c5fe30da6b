#pragma once

#include "data/loader/loading_plan.hpp"
#include "engine/resolve/step_probe.hpp"
#include "engine/setup/run_components.hpp"

namespace trainctl::engine {

/// What decides how the batches of this process are made.
struct LoadingContext {
  const ProbeContext& run;
  const RunData& data;
  double step_s = 0;  // of a training step, where it was measured; else a throwaway model tells
  int local_rank = 0;
};

/// loader.num_workers and loader.prefetch_factor, or for `auto` what a short probe finds. Rank 0
/// probes for all, so that no rank takes the cores of another. Draws random numbers: seed
/// afterwards.
data::LoadingChoice choose_loading(const LoadingContext& context, dist::Communicator& communicator);

/// The loaders of both splits, with the same choice. They share half of the memory that is
/// available to this rank.
RunLoaders build_loaders(const LoadingContext& context, const data::LoadingChoice& choice);

/// The loader of the one split that open_split() has opened.
std::unique_ptr<data::Loader> build_evaluation_loader(const LoadingContext& context,
                                                      const data::LoadingChoice& choice);

}  // namespace trainctl::engine
