#pragma once

#include "data/loader/loader.hpp"

namespace trainctl::data {

/// Returns the number of transforms before the first random one.
std::size_t fixed_prefix(const Pipeline& pipeline);
/// Removes the fixed prefix, because a cache or pack has already applied it. The remaining
/// transforms keep their RNG keys.
void drop_fixed_prefix(Pipeline& pipeline);

/// Makes the pixels of a sample after the fixed prefix, which decoded caches and packs store.
/// Called from several threads.
class Prefix {
 public:
  explicit Prefix(const Pipeline& pipeline);

  [[nodiscard]] const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  /// Height and width are 0 when samples differ in size.
  [[nodiscard]] const ImageShape& shape() const { return shape_; }
  /// Returns the shape that the header of the image states. Throws Error(data).
  [[nodiscard]] ImageShape shape_before(const StoredImage& image) const;
  /// Returns the shape that the fixed prefix makes of `shape`.
  [[nodiscard]] ImageShape shape_after(ImageShape shape) const;
  /// Returns the pixels of a sample, stored in `out`. Throws Error(data).
  [[nodiscard]] StoredImage make(std::int64_t index, std::vector<std::byte>& out) const;

 private:
  struct Workspace {
    std::vector<std::byte> stored;
    PixelReader reader;
    std::array<std::vector<std::uint8_t>, 2> between;
  };

  ImageView run(std::int64_t index, Workspace& work) const;

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::shared_ptr<const Transform>> transforms_;
  ImageShape shape_;
  mutable Pool<Workspace> pool_;
};

/// Holds the images of a data set in memory and is filled in any order. Any thread stores an image,
/// once, and lookups take no lock. The address space is reserved at the start; pages are allocated
/// when they are written.
class ImageStash {
 public:
  /// Places images of one fixed shape by index. Appends encoded files and images of other shapes,
  /// up to `capacity` bytes in total.
  ImageStash(std::int64_t samples, const ImageShape& shape, std::uint64_t capacity);

  /// Returns the bytes of the states and positions of `samples` images, without the images.
  static std::uint64_t bookkeeping(std::int64_t samples, const ImageShape& shape);

  /// Returns nothing when the image is not stored (yet).
  [[nodiscard]] std::optional<StoredImage> find(std::int64_t index) const;
  /// Stores a copy, unless another thread stores or has stored the image, or the capacity is used
  /// up.
  void keep(std::int64_t index, const StoredImage& image);
  void prefetch(std::int64_t index) const;

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t height = 0;  // shape of raw pixels
    std::uint32_t width = 0;
    std::uint32_t channels = 0;
  };
  /// An image that did not fit stays kClaimed, so that nobody tries again.
  enum State : std::uint8_t { kAbsent, kClaimed, kKept };

  [[nodiscard]] std::optional<std::uint64_t> room_for(std::int64_t index, std::uint64_t bytes);

  ImageShape shape_;  // may have open height and width
  std::vector<std::atomic<std::uint8_t>> states_;
  std::vector<Place> places_;  // empty when the shape is fixed
  std::atomic<std::uint64_t> used_{0};
  Arena bytes_;
};

/// Called with the number of finished samples and the total. May throw to stop the work.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

/// A data set whose images stay in memory after the first read: as they are stored (encoded), or as
/// pixels after the fixed transforms (decoded). Images that do not fit are read again every time,
/// so batches do not depend on the capacity.
class CachedDataset final : public Dataset, public ImageStore, public Fetchable {
 public:
  /// Caches encoded images, up to `capacity` bytes.
  CachedDataset(std::shared_ptr<const Dataset> source, std::uint64_t capacity);
  /// Caches decoded images. `capacity` limits them only when the images differ in size.
  CachedDataset(std::unique_ptr<const Prefix> prefix, std::uint64_t capacity);

  /// Reads every image once, in the order of the data set. Skips unreadable images; the loader
  /// reports them.
  void load(const Progress& progress = {}) const;

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return source_->classes(); }
  [[nodiscard]] std::int64_t tile_rows() const override { return source_->tile_rows(); }
  [[nodiscard]] bool in_memory() const override { return true; }
  [[nodiscard]] Footprint footprint() const override { return source_->footprint(); }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override;
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] Mixture mixture() const override { return source_->mixture(); }
  [[nodiscard]] std::string fingerprint() const override { return source_->fingerprint(); }
  [[nodiscard]] const Fetchable* fetchable() const override {
    return source_->fetchable() != nullptr ? this : nullptr;
  }
  /// Transfers nothing for a cached image and returns 0.
  std::uint64_t fetch(std::int64_t index) const override;
  [[nodiscard]] std::string object(std::int64_t index) const override {
    return source_->fetchable()->object(index);
  }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override;
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return source_->images()->name(index);
  }
  void prefetch(std::int64_t index) const override { stash_.prefetch(index); }

 private:
  void fill_images(std::span<const std::int64_t> indices, std::span<std::byte> images) const;

  std::shared_ptr<const Dataset> source_;
  std::unique_ptr<const Prefix> prefix_;  // null when the cache is encoded
  Layout layout_;
  std::size_t image_ = 0;  // index of the image field in layout_
  mutable ImageStash stash_;
};

}  // namespace trainctl::data
