#pragma once

#include "base/clock.hpp"
#include "data/cache/image_cache.hpp"
#include "data/loader/loader.hpp"
#include "spec/experiment/experiment.hpp"

namespace trainctl::data {

/// What was measured at the start of a run.
struct LoadingFigures {
  double batch_s = 0;  // to make a batch on one thread
  double spread = 1;   // of that time from batch to batch: its 99th percentile over its mean
  double step_s = 0;  // of the training; 0: nothing trains, batches are wanted as fast as they come
};

/// What one process may use.
struct LoadingLimits {
  int cores = 1;
  bool trains_on_them = false;   // the cores are the device; else one is left to launch the work
  std::uint64_t ring_bytes = 0;  // of all slots together
  bool helped = false;  // the consumer makes batches, too, rather than wait, on a core left to it
};

/// How many threads load, and how many batches ahead.
struct LoadingChoice {
  int num_workers = 0;
  int prefetch_factor = kUsualPrefetch;
  std::string why = "asked";  // "probe: a batch takes 71.2 ms to make and a step 20.1 ms; ..."

  static constexpr int kUsualPrefetch = 2;
  static constexpr int kMostPrefetch = 4;  // that auto takes
};

/// Most threads that `auto` takes.
int most_auto_workers(const LoadingLimits& limits);

/// Decides what the options leave to `auto`. Threads: as many as make batches 1.15 times as fast as
/// steps use them, within the cores; none where making batches takes a twentieth of the time or
/// less, where a batch is made sooner than it is handed to another thread, or where the ring may
/// hold one batch only. Batches ahead: so many that a slow one is ready in time, within the bytes
/// of the ring. A batch never depends on either.
LoadingChoice choose_loading(const spec::Loader& wish, const LoadingFigures& figures,
                             const LoadingLimits& limits, std::uint64_t slot_bytes);

/// The number of threads for steps of `least_step_s` or longer.
struct AutoWorkers {
  double least_step_s = 0;
  int num_workers = 0;
};
/// The threads that choose_loading() takes by the step, from long steps to short ones.
std::vector<AutoWorkers> auto_workers_by_step(double batch_s, const LoadingLimits& limits,
                                              std::uint64_t slot_bytes);

/// What making batches takes on one thread.
struct BatchCost {
  double seconds = 0;  // of a full batch: its samples times the median of the tiles
  double spread = 1;   // 99th percentile over mean, for whole batches
  bool whole = false;  // a batch is one tile: a consumer that would wait makes some itself
};

/// Times the first tiles of epoch 0 in the calling thread, for about a quarter of a second and at
/// least one tile. Loaders are not affected. Nothing where no sample could be made; the loader
/// reports why.
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

/// The memory that loading a split takes, in bytes.
struct MemoryPlan {
  int slots = 0;
  int slots_wanted = 0;    // more than `slots` where memory is short
  std::uint64_t slot = 0;  // one batch
  std::uint64_t orders = 0;
  CacheNeed cache_need;
  CacheChoice cache;
  int threads = 1;
  std::uint64_t scratch = 0;    // of one thread, for the largest image that was seen
  std::uint64_t ahead = 0;      // images read before their turn
  std::uint64_t transfers = 0;  // of a remote data set
  Footprint dataset;
  std::string refusal;  // why a loader of this split would not start: Error(resource)

  [[nodiscard]] std::uint64_t ring() const { return static_cast<std::uint64_t>(slots) * slot; }
  [[nodiscard]] std::uint64_t total() const {
    return dataset.memory + ring() + orders + cache.host_bytes() +
           static_cast<std::uint64_t>(threads) * scratch + ahead + transfers;
  }
};

/// `pipeline` has no cache yet; what the cache takes is subtracted from the budget.
MemoryPlan memory_plan(const Pipeline& pipeline, const LoaderOptions& options, CacheBudget& budget);

/// Bytes that the ring of these options may take.
std::uint64_t ring_budget(const LoaderOptions& options);

/// Slots of the ring: those that the options ask for, or fewer where memory is short. Throws
/// Error(resource) where not even the least would fit.
int ring_slots(const LoaderOptions& options, std::uint64_t slot_bytes);

/// Bytes for images that are read ahead, out of what the ring leaves of the budget; 0: none are.
std::uint64_t ahead_memory(const Dataset& dataset, const LoaderOptions& options,
                           std::uint64_t ring_bytes);

}  // namespace trainctl::data
