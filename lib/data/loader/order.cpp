#include "data/loader/order.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "spec/experiment/value_types.hpp"

#include <numeric>

namespace trainctl::data {

void shuffle(Permutation& order, std::uint64_t seed, std::int64_t epoch) {
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  WordStream words(seed, epoch, EpochStream::shuffle);
  shuffle_with(order, words);
}

BatchPlan::BatchPlan(std::int64_t samples, const LoaderOptions& options)
    : samples_(samples), batch_size_(options.batch_size), shard_(options.shard) {
  ASSERT(shard_.world_size >= 1 && shard_.rank >= 0 && shard_.rank < shard_.world_size);
  ENSURE(config, batch_size_ >= 1, "loader.batch_size must be at least 1, got {}", batch_size_);
  ENSURE(data, samples >= 1, "the data set has no samples");
  ENSURE(data, samples < std::numeric_limits<std::uint32_t>::max(),
         "the data set has {} samples, more than the limit of 4,294,967,294", samples);
  const std::int64_t global = batch_size_ * shard_.world_size;
  const bool keep = options.last_batch == LastBatch::keep;
  const std::int64_t whole = keep ? (samples + global - 1) / global : samples / global;
  ENSURE(config, whole >= 1,
         "a batch of {} samples{} is larger than the data set ({}), and loader.drop_last drops "
         "this incomplete batch\nhint: lower loader.batch_size to at most {}, or set "
         "loader.drop_last: false",
         batch_size_,
         shard_.world_size == 1 ? "" : fmt::format(" on each of {} ranks", shard_.world_size),
         counted(samples, "sample"), std::max<std::int64_t>(1, samples / shard_.world_size));
  batches_ = spec::Limit{options.limit_batches, options.limit_fraction}.of(whole);
  ENSURE(config, batches_ >= 1,
         "the limit of batches per epoch is too low: none of the {} batches would be used\nhint: "
         "raise trainer.limit_train_batches (for dataset.train) or trainer.limit_val_batches",
         whole);
}

Extent BatchPlan::extent(std::int64_t batch) const {
  const std::int64_t ranks = shard_.world_size;
  const std::int64_t start = batch * batch_size_ * ranks;
  Extent extent;
  extent.first = start + shard_.rank;
  extent.step = ranks;
  extent.global_valid = std::min(batch_size_ * ranks, samples_ - start);
  extent.rows = (extent.global_valid + ranks - 1) / ranks;
  extent.valid = (extent.global_valid - shard_.rank + ranks - 1) / ranks;
  return extent;
}

std::int64_t sample_of(const Extent& extent, std::int64_t row, const Permutation* order) {
  const std::int64_t position = row < extent.valid ? extent.first + row * extent.step
                                                   : extent.first - extent.first % extent.step;
  return order != nullptr ? (*order)[static_cast<std::size_t>(position)] : position;
}

Orders::Orders(const Dataset& dataset, const LoaderOptions& options)
    : samples_(dataset.size()), kind_(options.order), seed_(options.seed) {
  if (options.sampling) {
    sampler_.emplace(dataset, *options.sampling);
  } else if (kind_ == Order::shuffled) {
    const Mixture mixture = dataset.mixture();
    if (!mixture.weights.empty()) mixture_.emplace(mixture);
  }
}

std::shared_ptr<const Permutation> Orders::get(std::int64_t epoch) const {
  if (!sampler_ && kind_ == Order::sequential) return nullptr;
  const std::lock_guard lock(mutex_);
  CachedOrder& cached = cached_[epoch % 2];
  if (cached.epoch == epoch) return cached.order;
  Permutation order;
  if (sampler_) {
    order = sampler_->draw(seed_, epoch);
  } else if (mixture_) {
    order = mixture_->draw(seed_, epoch);
  } else {
    order.resize(static_cast<std::size_t>(samples_));
    shuffle(order, seed_, epoch);
  }
  cached = {epoch, std::make_shared<const Permutation>(std::move(order))};
  return cached.order;
}

}  // namespace trainctl::data
