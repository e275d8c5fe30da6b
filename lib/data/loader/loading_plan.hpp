#pragma once

#include "base/clock.hpp"
#include "data/cache/image_cache.hpp"

namespace trainctl::data {

/// Measurements at the start of a run.
struct LoadingFigures {
  double batch_s = 0;  // seconds to make a batch on one thread
  double spread = 1;   // 99th percentile of batch_s over its mean
  double step_s = 0;   // seconds per training step; 0: batches are consumed at full speed
};

/// Resources of one process.
struct LoadingLimits {
  int cores = 1;
  bool training_uses_cores = false;  // the cores train, too; otherwise one core launches kernels
  std::uint64_t ring_bytes = 0;      // memory limit of all slots
  bool consumer_helps = false;       // it makes batches on a reserved core instead of waiting
};

/// The number of loader threads and of batches loaded ahead.
struct LoadingChoice {
  int num_workers = 0;
  int prefetch_factor = kUsualPrefetch;
  std::string why = "configured";  // "probe: a batch takes 71.2 ms to load, a step 20.1 ms; ..."
  std::int64_t next_batch = 0;     // see BatchCost
  double taken = 0;                // share of the cores that other processes took during the probe

  static constexpr int kUsualPrefetch = 2;
  static constexpr int kMostPrefetch = 4;  // limit of auto
};

/// Returns the limit of threads for `auto`.
int most_auto_workers(const LoadingLimits& limits);

/// Chooses the values of options set to `auto`. num_workers is enough to make batches 1.15 times as
/// fast as the steps consume them, within the cores. It is 0 when making batches takes at most a
/// twentieth of the time, when making a batch takes less time than handing it to another thread, or
/// when the ring has memory for only one batch. prefetch_factor is high enough that slow batches
/// are ready in time, within the ring's memory. Batches never depend on either value.
LoadingChoice choose_loading(const spec::Loader& requested, const LoadingFigures& figures,
                             const LoadingLimits& limits, std::uint64_t slot_bytes);

/// The number of threads for steps of at least `least_step_s`.
struct AutoWorkers {
  double least_step_s = 0;
  int num_workers = 0;
};
/// Returns the threads that choose_loading() selects by step time, from long to short steps.
std::vector<AutoWorkers> auto_workers_by_step(double batch_s, const LoadingLimits& limits,
                                              std::uint64_t slot_bytes);

/// The cost of making batches on one thread.
struct BatchCost {
  double seconds = 0;           // per full batch: its samples times the median over tiles
  double spread = 1;            // 99th percentile over mean, for whole batches
  bool whole = false;           // a batch is one tile, so a waiting consumer makes some itself
  std::int64_t next_batch = 0;  // in epoch 0, after the last one that was loaded
};

/// Times the tiles of epoch 0 in the calling thread, for about 0.25 s and at least one tile, but no
/// batch twice. Starts at `first_batch`; the first batch follows the last one. Does not affect
/// loaders. Returns nothing when no sample could be loaded; the loader reports why.
std::optional<BatchCost> time_batches(const Pipeline& pipeline, const LoaderOptions& options,
                                      const Clock& clock, std::int64_t first_batch = 0);

/// Chooses the values of options set to `auto`, with a probe if there are any. `step_s` is the time
/// of a training step, or 0 without training. A repeated probe starts at the `next_batch` of the
/// earlier choice, because the files of earlier batches are already in memory.
LoadingChoice decide_loading(const spec::Loader& requested, const Pipeline& pipeline,
                             const LoaderOptions& options, LoadingLimits limits, double step_s,
                             const Clock& clock, std::int64_t first_batch = 0);

/// Returns the options with the choice applied. Loader threads get a lower priority if the training
/// needs their cores.
LoaderOptions with_choice(LoaderOptions options, const LoadingChoice& choice,
                          const LoadingLimits& limits);

/// The memory, in bytes, that loading a split needs.
struct MemoryPlan {
  int slots = 0;
  int slots_wanted = 0;    // above `slots` when memory is short
  std::uint64_t slot = 0;  // one batch
  std::uint64_t orders = 0;
  CacheNeed cache_need;
  CacheChoice cache;
  int threads = 1;
  std::uint64_t scratch = 0;    // per thread, for the largest probed image
  std::uint64_t ahead = 0;      // images that are read ahead
  std::uint64_t transfers = 0;  // of a remote data set
  Footprint dataset;
  std::string refusal;  // the Error(resource) with which a loader would fail, or empty

  [[nodiscard]] std::uint64_t ring() const { return static_cast<std::uint64_t>(slots) * slot; }
  [[nodiscard]] std::uint64_t total() const {
    return dataset.memory + ring() + orders + cache.host_bytes() +
           static_cast<std::uint64_t>(threads) * scratch + ahead + transfers;
  }
};

/// `pipeline` must not have a cache yet. Subtracts the cache from the budget.
MemoryPlan memory_plan(const Pipeline& pipeline, const LoaderOptions& options, CacheBudget& budget);

/// Returns the memory limit of the ring for these options.
std::uint64_t ring_budget(const LoaderOptions& options);

/// Returns the fewest slots with which a loader works, without batches in flight.
int least_slots(const LoaderOptions& options);

/// Returns the number of slots: as many as the options request, or fewer when memory is short.
/// Throws Error(resource) when not even the minimum fits.
int ring_slots(const LoaderOptions& options, std::uint64_t slot_bytes);

/// Returns the bytes for images that are read ahead, from the budget that the ring leaves; 0
/// without read-ahead.
std::uint64_t read_ahead_within_budget(const Dataset& dataset, const LoaderOptions& options,
                                       std::uint64_t ring_bytes);

}  // namespace trainctl::data
