#pragma once

#include "data/loader/loader.hpp"
#include "data/loader/sampling.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace trainctl::data {

/// Fisher-Yates over Philox counters: a pure function of (count, seed, epoch), the same on every
/// machine.
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
  std::shared_ptr<const Permutation> get(std::int64_t epoch);

 private:
  [[nodiscard]] Permutation make(std::int64_t epoch) const;

  struct Kept {
    std::int64_t epoch = -1;
    std::shared_ptr<const Permutation> order;
  };

  std::int64_t samples_;
  Order kind_;
  std::uint64_t seed_;
  std::optional<ClassSampler> sampler_;
  std::mutex mutex_;
  Kept kept_[2];  // of even and of odd epochs
};

}  // namespace trainctl::data
