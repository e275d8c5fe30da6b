#pragma once

#include "data/core/parallel.hpp"
#include "data/loader/sampling.hpp"
#include "data/loader/skipped_samples.hpp"

namespace trainctl::data {

/// The part of the global order that a rank loads: rank r of R gets the positions p with p mod R =
/// r.
struct Shard {
  int rank = 0;
  int world_size = 1;
};

/// The order of samples in an epoch.
enum class Order { sequential, shuffled };
/// Whether an incomplete last batch is padded or dropped.
enum class LastBatch { keep, drop };

/// The options of a loader. Its batches do not depend on threads, tiles, prefetch or read-ahead.
struct LoaderOptions {
  std::int64_t batch_size = 64;  // per rank
  int num_workers = 0;           // threads; 0: load in the caller
  int prefetch_factor = 2;
  Priority priority = Priority::normal;
  std::vector<int> cores;  // CPU affinity of the threads and NUMA node of the memory; empty: any
  Order order = Order::shuffled;
  std::optional<ClassSampling> sampling;  // replaces `order`; draws with replacement
  LastBatch last_batch = LastBatch::keep;
  std::uint64_t seed = 0;
  Shard shard;
  std::optional<std::int64_t> limit_batches;  // only the first batches of each epoch
  double limit_fraction = 1.0;  // limit as a fraction of the batches; at least one batch remains
  std::int64_t tile_rows = 0;   // samples per work item; 0: chosen by the data set
  OnError on_error = OnError::fail;         // fail: Error(data) for an unreadable sample
  std::optional<std::int64_t> max_skipped;  // of this loader; default: default_max_skipped()
  /// Bytes for the ring and the read-ahead; default: half of the available memory.
  std::optional<std::uint64_t> memory_budget;
  /// Batches to read ahead; 0: none; default: as many as the disk needs while the data is not in
  /// the page cache.
  std::optional<int> read_ahead;
  /// Batches that the consumer may still read after it has requested the next one, because a device
  /// copies them in the background; fewer when memory is short.
  int in_flight = 0;
  bool digests = true;  // computes Batch::digest
};

/// LoaderOptions::in_flight of a run on a GPU: how many steps the host runs ahead of the device.
constexpr int kGpuBatchesInFlight = 4;

/// Fisher-Yates shuffle with Philox counters: a pure function of (count, seed, epoch), the same on
/// every machine.
void shuffle(Permutation& order, std::uint64_t seed, std::int64_t epoch);

/// The part of the global order in a rank's batch: row i is position `first + i * step`.
struct Extent {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t rows = 1;  // the same on every rank
  std::int64_t valid = 0;
  std::int64_t global_valid = 0;
};

/// Maps batches to positions: global batch b is the positions [b*B, (b+1)*B) with B = batch_size x
/// ranks; rank r of R gets the positions p with p mod R = r.
class BatchPlan {
 public:
  /// Throws Error(config) when an epoch has no batch.
  BatchPlan(std::int64_t samples, const LoaderOptions& options);

  [[nodiscard]] std::int64_t batches() const { return batches_; }
  [[nodiscard]] Extent extent(std::int64_t batch) const;

 private:
  std::int64_t samples_;
  std::int64_t batch_size_;
  Shard shard_;
  std::int64_t batches_ = 0;
};

/// Returns the sample of a row; `order` is null for the sequential order. Padding repeats the first
/// position of the batch: a real sample with weight 0.
std::int64_t sample_of(const Extent& extent, std::int64_t row, const Permutation* order);

/// Creates and caches the orders of recent epochs. Called from several threads.
class Orders {
 public:
  Orders(const Dataset& dataset, const LoaderOptions& options);

  /// Positions per epoch.
  [[nodiscard]] std::int64_t positions() const { return sampler_ ? sampler_->size() : samples_; }

  /// Returns the order of `epoch`, or null for the sequential order.
  std::shared_ptr<const Permutation> get(std::int64_t epoch) const;

 private:
  struct CachedOrder {
    std::int64_t epoch = -1;
    std::shared_ptr<const Permutation> order;
  };

  std::int64_t samples_;
  Order kind_;
  std::uint64_t seed_;
  std::optional<ClassSampler> sampler_;
  std::optional<MixtureSampler> mixture_;
  mutable std::mutex mutex_;
  mutable CachedOrder cached_[2];  // of even and odd epochs
};

}  // namespace trainctl::data
