#pragma once

#include "data/loader/loading_plan.hpp"
#include "engine/resolve/step_probe.hpp"
#include "engine/setup/run_components.hpp"

namespace trainctl::engine {

/// The input for resolving the loader's options in this process.
struct LoadingContext {
  const ProbeContext& run;
  const RunData& data;
  double step_s = 0;  // duration of a training step, if it was measured; 0: unknown
  int local_rank = 0;
};

/// Returns loader.num_workers and loader.prefetch_factor. For `auto`, rank 0 runs a short probe for
/// all, so that ranks do not compete for cores. Draws random numbers: set the seed afterward.
data::LoadingChoice choose_loading(const LoadingContext& context, dist::Communicator& communicator);

/// Returns the loaders of both splits with the same choice. They share half of the memory that is
/// available to this rank.
RunLoaders build_loaders(const LoadingContext& context, const data::LoadingChoice& choice);

/// Returns the loader of dataset.test, which must be open.
std::unique_ptr<data::Loader> build_test_loader(const LoadingContext& context,
                                                const data::LoadingChoice& choice);

/// Returns the loader of the split that open_split() has opened.
std::unique_ptr<data::Loader> build_evaluation_loader(const LoadingContext& context,
                                                      const data::LoadingChoice& choice);

}  // namespace trainctl::engine
