#pragma once

#include "base/clock.hpp"
#include "data/loader/loader.hpp"
#include "data/loader/loading_plan.hpp"

#include <cstdint>
#include <optional>

namespace trainctl::data {

/// What making batches takes on one thread.
struct BatchCost {
  double seconds = 0;  // of a full batch: its samples times the median of the tiles
  double spread = 1;   // 99th percentile over mean, for whole batches
  bool whole = false;  // a batch is one tile: a consumer that would wait makes some itself
};

/// Times the first tiles of epoch 0 in the calling thread, for about a quarter of a second and at
/// least one tile. A loader knows nothing of it: neither order nor skipped samples change, and what
/// a cache keeps meanwhile it would have kept anyway. Nothing where no sample could be made; the
/// loader will tell why.
std::optional<BatchCost> time_batches(const Pipeline& pipeline, const LoaderOptions& options,
                                      const Clock& clock);

/// Decides what the experiment leaves to `auto`, with a probe where it leaves something. `step_s`
/// is what a training step takes; 0 where nothing trains.
LoadingChoice decide_loading(const spec::Loader& wish, const Pipeline& pipeline,
                             const LoaderOptions& options, LoadingLimits limits, double step_s,
                             const Clock& clock);

/// The options with the choice in them. Threads give way to the training where they need its cores.
LoaderOptions with_choice(LoaderOptions options, const LoadingChoice& choice,
                          const LoadingLimits& limits);

}  // namespace trainctl::data
