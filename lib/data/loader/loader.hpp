#pragma once

#include "base/state_archive.hpp"
#include "data/core/batch.hpp"
#include "data/core/dataset.hpp"
#include "data/core/transform.hpp"
#include "data/loader/sampling.hpp"
#include "data/loader/skipped_samples.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::data {

/// Which share of the global order this rank loads. Rank r of R takes the positions p with p mod R
/// = r.
struct Shard {
  int rank = 0;
  int world_size = 1;
};

enum class Order { sequential, shuffled };
enum class LastBatch { keep, drop };
/// Of the loader's threads: below_trainer where they share cores with the training.
enum class Priority { normal, below_trainer };

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
  OnError on_error = OnError::fail;            // a sample that cannot be read: Error(data)
  std::optional<std::int64_t> max_skipped;     // of this loader; default: default_max_skipped()
  std::optional<std::uint64_t> memory_budget;  // bytes of the ring and of what is read ahead;
                                               // default: half of the available memory
  std::optional<int> read_ahead;  // batches; 0: none; default: what the disk needs, while the data
                                  // is not in the page cache
};

struct HeldImages;

/// A data set with its transforms, ready to be loaded.
struct Pipeline {
  std::shared_ptr<const Dataset> dataset;
  std::vector<std::shared_ptr<const Transform>> transforms;
  /// Place of the first of them in the config's list, which their draws are keyed by; the ones
  /// before are done already.
  std::size_t first_operation = 0;
  std::optional<Normalization> normalization;
  std::vector<std::shared_ptr<const BatchTransform>>
      batch_transforms;            // one of them for each batch
  std::vector<std::string> names;  // of the transforms, where they have any
  /// The images where a device keeps them: a batch then has, as its image field, one PixelPlan a
  /// row. All transforms can be planned.
  std::shared_ptr<const HeldImages> held;
};

/// What a row of a batch was made of.
struct RowSample {
  std::int64_t index = 0;  // in the data set
  std::string name;        // a path, an entry of an archive, "sample 7"
};

/// Batches in an order fixed by (seed, epoch) alone: the same bytes for any worker count and
/// prefetch depth. Owns the ring of slots and the threads, which live as long as the loader; one
/// consumer. Workers expect epoch e + 1 behind epoch e and start on it early; any other epoch
/// begins the ring anew.
class Loader {
 public:
  /// Throws Error(config) where no batch comes out or a transform does not fit, Error(resource)
  /// where the ring would exceed its memory budget.
  Loader(Pipeline pipeline, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// After the transforms: of the samples, even where a batch has plans in place of their images.
  [[nodiscard]] const Layout& layout() const;
  /// Null where the batches have the pixels themselves.
  [[nodiscard]] const std::shared_ptr<const HeldImages>& held() const;
  [[nodiscard]] const std::optional<Normalization>& normalization() const;
  [[nodiscard]] std::int64_t classes() const;
  [[nodiscard]] std::int64_t samples() const;            // of an epoch
  [[nodiscard]] std::int64_t batches_per_epoch() const;  // the same on every rank
  /// The damaged samples of the batches that next() has given, each once.
  [[nodiscard]] std::vector<SkippedSample> skipped() const;
  /// Which samples count as damaged; those of an earlier process are not among skipped().
  void serialize(StateArchive& archive);

  /// Begins `epoch`; with workers its first batches may already be there. With `first_batch` the
  /// epoch goes on there, with the same bytes as if it had begun at 0: (epoch, batch) is all the
  /// state there is.
  void start_epoch(std::int64_t epoch, std::int64_t first_batch = 0);
  /// The next batch of the epoch, or nullptr at its end. Rethrows what a worker threw, with the
  /// sample's name; the call after that goes on with the next batch.
  const Batch* next();

  /// No batch is wanted for now: the workers end the tiles under way and take no others. The batch
  /// that next() gave is no longer held; start_epoch() begins the ring anew.
  void rest();

  /// The samples of the rows of a batch that count. One that could not be read is named though
  /// another stands in its place.
  [[nodiscard]] std::vector<RowSample> samples_of(const Batch& batch) const;

  /// The whole ring, for a layer above that page-locks it; every batch's fields lie in it.
  [[nodiscard]] std::span<const std::byte> memory() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Digest of a batch's valid rows: the sum, modulo 2^64, of a hash of each row and its position. So
/// the digests of the batches of an epoch, or of several ranks, add up to the same value however
/// the positions are split. Of pixels, not of plans.
std::uint64_t digest(const Batch& batch, const Layout& layout);

}  // namespace trainctl::data
