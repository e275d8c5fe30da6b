#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "data/batch.hpp"
#include "data/dataset.hpp"
#include "data/transform.hpp"

namespace trainctl::data {

/// Which share of the global order this rank loads. Rank r of R takes the positions p with p mod R = r.
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
  Order order = Order::shuffled;
  LastBatch last_batch = LastBatch::keep;
  std::uint64_t seed = 0;
  Shard shard;
  std::optional<std::int64_t> limit_batches;  // a prefix of each epoch
};

/// A data set with its transforms, ready to be loaded.
struct Pipeline {
  std::shared_ptr<const Dataset> dataset;
  std::vector<std::shared_ptr<const Transform>> transforms;
  std::optional<Normalization> normalization;
};

/// Batches in an order fixed by (seed, epoch) alone: the same bytes for any worker count and prefetch depth. Owns the
/// ring of slots and the threads, which live as long as the loader; one consumer.
class Loader {
 public:
  Loader(Pipeline pipeline, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// After the transforms.
  [[nodiscard]] const Layout& layout() const;
  [[nodiscard]] const std::optional<Normalization>& normalization() const;
  [[nodiscard]] std::int64_t classes() const;
  [[nodiscard]] std::int64_t samples() const;
  [[nodiscard]] std::int64_t batches_per_epoch() const;  // the same on every rank

  /// Begins `epoch`; with workers its first batches may already be there.
  void start_epoch(std::int64_t epoch);
  /// The next batch of the epoch, or nullptr at its end. Rethrows what a worker threw, with the sample's name.
  const Batch* next();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Digest of a batch's valid rows: pixels, labels.
std::uint64_t digest(const Batch& batch, const Layout& layout);

}  // namespace trainctl::data
