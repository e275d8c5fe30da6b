#pragma once

#include "data/core/parallel.hpp"
#include "data/loader/sampling.hpp"
#include "data/loader/skipped_samples.hpp"

namespace trainctl::data {

/// The share of the global order that a rank loads: rank r of R, the positions p with p mod R = r.
struct Shard {
  int rank = 0;
  int world_size = 1;
};

enum class Order { sequential, shuffled };
enum class LastBatch { keep, drop };

struct LoaderOptions {
  std::int64_t batch_size = 64;  // per rank
  int num_workers = 0;           // threads; 0: in the caller
  int prefetch_factor = 2;
  Priority priority = Priority::normal;
  std::vector<int> cores;  // that its threads and its memory keep to; empty: any
  Order order = Order::shuffled;
  std::optional<ClassSampling> sampling;  // instead of the order: drawn with replacement
  LastBatch last_batch = LastBatch::keep;
  std::uint64_t seed = 0;
  Shard shard;
  std::optional<std::int64_t> limit_batches;  // a prefix of each epoch
  double limit_fraction = 1.0;  // the same as a share of the batches; at least one batch is left
  std::int64_t tile_rows = 0;   // samples a thread makes in one go; 0: the data set's choice
  OnError on_error = OnError::fail;         // a sample that cannot be read: Error(data)
  std::optional<std::int64_t> max_skipped;  // of this loader; default: default_max_skipped()
  /// Bytes of the ring and of what is read ahead; default: half of the available memory.
  std::optional<std::uint64_t> memory_budget;
  /// Batches; 0: none; default: what the disk needs, while the data is not in the page cache.
  std::optional<int> read_ahead;
};

/// Fisher-Yates over Philox counters: a pure function of (count, seed, epoch) on every machine.
void shuffle(Permutation& order, std::uint64_t seed, std::int64_t epoch);

/// Where a rank's batch lies in the global order: row i is position `first + i * step`.
struct Extent {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t rows = 1;  // as many on every rank
  std::int64_t valid = 0;
  std::int64_t global_valid = 0;
};

/// The arithmetic of batches: global batch b is the positions [b*B, (b+1)*B), B = batch_size x
/// ranks; rank r of R has the positions p with p mod R = r.
class BatchPlan {
 public:
  /// Throws Error(config) where not a single batch comes out.
  BatchPlan(std::int64_t samples, const LoaderOptions& options);

  [[nodiscard]] std::int64_t batches() const { return batches_; }
  [[nodiscard]] Extent extent(std::int64_t batch) const;

 private:
  std::int64_t samples_;
  std::int64_t batch_size_;
  Shard shard_;
  std::int64_t batches_ = 0;
};

/// The sample that a row of a batch is made of; `order` is null for the sequential one. Padding
/// repeats the batch's first position: a real sample, of weight 0.
std::int64_t sample_of(const Extent& extent, std::int64_t row, const Permutation* order);

/// Makes and keeps the orders of the epochs in use. Called from several threads.
class Orders {
 public:
  Orders(const Dataset& dataset, const LoaderOptions& options);

  /// Positions of an epoch.
  [[nodiscard]] std::int64_t positions() const { return sampler_ ? sampler_->size() : samples_; }

  /// The order of `epoch`; null for the sequential one.
  std::shared_ptr<const Permutation> get(std::int64_t epoch) const;

 private:
  struct Kept {
    std::int64_t epoch = -1;
    std::shared_ptr<const Permutation> order;
  };

  std::int64_t samples_;
  Order kind_;
  std::uint64_t seed_;
  std::optional<ClassSampler> sampler_;
  mutable std::mutex mutex_;
  mutable Kept kept_[2];  // of even and of odd epochs
};

}  // namespace trainctl::data
