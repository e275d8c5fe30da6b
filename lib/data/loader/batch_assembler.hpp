#pragma once

#include "base/error.hpp"
#include "data/batch_transform/mixup.hpp"
#include "data/cache/device_images.hpp"
#include "data/image/codec/decoder.hpp"
#include "data/loader/host_memory.hpp"
#include "data/loader/order.hpp"

namespace trainctl::data {

class AheadTile;

/// The layout of a slot in bytes: the offset of each field and the total size.
struct SlotShape {
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;

  SlotShape(const Layout& layout, std::int64_t rows);
};

/// One tile of a batch for a worker to fill.
struct TileJob {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  Extent extent;
  int tile = 0;
  std::span<std::byte> slot;
  const AheadTile* ahead = nullptr;  // images that were read ahead, or null
};

/// Fills tiles: reads samples of the data set, then applies the transforms. Holds the state shared
/// by all threads; each thread uses a separate Scratch. Workers and the consumer run the same code.
class BatchAssembler {
 public:
  /// The reusable buffers of one thread, and its current epoch's order.
  struct Scratch {
    std::int64_t epoch = -1;
    std::shared_ptr<const Permutation> order;  // of that epoch
    std::vector<std::int64_t> indices;
    std::vector<std::span<std::byte>> rows;
    std::vector<std::byte> stored;  // an image as the data set stores it
    ImageDecoder decoder;
    std::vector<std::uint8_t> decoded;                 // its decoded part
    std::array<std::vector<std::uint8_t>, 2> between;  // images between transforms
    Batch hashed;                                      // the batch that digest() reads
  };

  /// Throws Error(config) when a transform cannot take its input.
  BatchAssembler(Pipeline pipeline, const LoaderOptions& options);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// Returns the layout with image plans instead of images if a device holds the images.
  [[nodiscard]] const Layout& slot_layout() const { return slot_layout_; }
  [[nodiscard]] const SlotShape& slot_shape() const { return slot_shape_; }
  [[nodiscard]] const Pipeline& pipeline() const { return pipeline_; }
  [[nodiscard]] int tiles() const { return tiles_; }
  [[nodiscard]] std::int64_t tile_rows() const { return tile_rows_; }
  [[nodiscard]] Scratch scratch() const;

  [[nodiscard]] SkippedSamples& skipped() const { return *skipped_; }

  /// Fills the tile of the job in its slot. Throws Error(data) that names the sample.
  void make(const TileJob& job, Scratch& scratch) const;

  /// Returns the part of Batch::digest that the rows of a filled tile add. Requires pixels, not
  /// image plans.
  [[nodiscard]] std::uint64_t digest(const TileJob& job, Scratch& scratch) const;
  /// Sets everything in `batch` except its digest.
  void describe(const TileJob& job, Batch& batch) const;

 private:
  /// A transform with the index that keys its draws.
  struct Step {
    std::shared_ptr<const Transform> transform;
    std::size_t operation = 0;
  };
  /// One row of a batch.
  struct RowJob {
    const TileJob& tile;
    std::int64_t row = 0;
    std::int64_t sample = 0;
    [[nodiscard]] std::uint64_t position() const {
      return static_cast<std::uint64_t>(tile.extent.first + row * tile.extent.step);
    }
  };

  /// Calls `body(first, count)` for each range of rows in the tile.
  template <class Body>
  void for_each_range(int tile, const Body& body) const;
  void join_steps();
  void make_rows(const TileJob& job, std::int64_t first, std::int64_t count,
                 Scratch& scratch) const;
  void fill_block(const TileJob& job, std::int64_t first, std::int64_t count,
                  Scratch& scratch) const;
  void fill_fields(const TileJob& job, std::int64_t first, std::span<const std::int64_t> indices,
                   Scratch& scratch) const;
  void replace_row(RowJob job, Error error, Scratch& scratch) const;
  void make_image(const RowJob& job, Scratch& scratch) const;
  [[nodiscard]] std::span<std::byte> image_slot(const RowJob& job) const;
  void make_plan(const RowJob& job, Scratch& scratch) const;
  void decode(const RowJob& job, const StoredImage& stored, Scratch& scratch) const;
  void transform(ImageView image, std::size_t first_step, const RowJob& job,
                 Scratch& scratch) const;
  /// Returns the random numbers of the operation, which is that of `transform` if there is one.
  [[nodiscard]] CounterRng draws(const RowJob& job, std::size_t operation,
                                 const Transform* transform = nullptr) const;
  [[nodiscard]] ImageTarget target(const RowJob& job, std::size_t step, Scratch& scratch) const;
  [[nodiscard]] bool transforms() const { return pipeline_.held || !pipeline_.transforms.empty(); }
  /// Returns whether images come one by one from the store instead of from Dataset::fill().
  [[nodiscard]] bool makes_images(const TileJob& job) const {
    return transforms() || job.ahead != nullptr;
  }

  Pipeline pipeline_;
  std::vector<Step> steps_;
  const CropTransform* crop_ = nullptr;  // the first step, if it is a crop
  OnError on_error_;
  std::unique_ptr<SkippedSamples> skipped_;
  std::unique_ptr<VerifiedSamples> verified_;
  std::uint64_t seed_;
  Layout layout_;
  Layout slot_layout_;
  std::size_t image_ = 0;        // index of the image field
  std::size_t image_bytes_ = 0;  // per row of the slot
  ImageShape shape_;             // after the transforms
  SlotShape slot_shape_;
  std::optional<Mixer> mixer_;
  std::int64_t batch_size_;
  std::int64_t tile_rows_;
  std::int64_t block_rows_;
  int tiles_;
};

/// Returns the layout after the transforms. Throws Error(config) when a transform does not fit or
/// sizes differ.
Layout transformed(Layout layout, const std::vector<std::shared_ptr<const Transform>>& transforms);

/// Returns the layout of batches, after the transforms of samples and batches.
Layout batch_layout(const Pipeline& pipeline, const LoaderOptions& options);

}  // namespace trainctl::data
