#pragma once

#include "data/cache/fixed_prefix.hpp"
#include "data/core/dataset.hpp"
#include "data/loader/host_memory.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace trainctl::data {

/// Memory for the images of a data set, filled as they come: each image once, by any thread, found
/// without a lock. The memory is reserved at the start and taken as it is written.
class ImageStash {
 public:
  /// Images of one shape lie at their index; any others, or files, one behind the other up to
  /// `capacity` bytes in all.
  ImageStash(std::int64_t samples, const ImageShape& shape, std::uint64_t capacity);

  /// Bytes for the states and places of so many images, without the images.
  static std::uint64_t bookkeeping(std::int64_t samples, const ImageShape& shape);

  /// Nothing where the image is not kept (yet).
  [[nodiscard]] std::optional<StoredImage> find(std::int64_t index) const;
  /// Keeps a copy, unless another thread did or does, or there is no room left.
  void keep(std::int64_t index, const StoredImage& image);
  void prefetch(std::int64_t index) const;

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t height = 0;  // of raw pixels
    std::uint32_t width = 0;
    std::uint32_t channels = 0;
  };
  /// An image stays claimed where there was no room for it.
  enum State : std::uint8_t { kAbsent, kClaimed, kKept };

  [[nodiscard]] std::optional<std::uint64_t> room_for(std::int64_t index, std::uint64_t bytes);

  ImageShape shape_;  // fixed, or not
  std::vector<std::atomic<std::uint8_t>> states_;
  std::vector<Place> places_;  // empty where the shape is fixed
  std::atomic<std::uint64_t> used_{0};
  Arena bytes_;
};

/// Told how many of how many samples are done; may throw to stop.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

/// A data set whose images stay in memory once they have been read: as they are stored (encoded),
/// or as pixels behind the fixed transforms (decoded). What does not fit is read again each time: a
/// batch never changes.
class CachedDataset final : public Dataset, public ImageStore, public Fetchable {
 public:
  /// Encoded, up to `capacity` bytes.
  CachedDataset(std::shared_ptr<const Dataset> source, std::uint64_t capacity);
  /// Decoded; `capacity` counts where the images differ in size.
  CachedDataset(std::unique_ptr<const Prefix> prefix, std::uint64_t capacity);

  /// Reads every image once, in the order of the data set. One that cannot be read is left to the
  /// loader.
  void load(const Progress& progress = {}) const;

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return source_->classes(); }
  [[nodiscard]] std::int64_t tile_rows() const override { return source_->tile_rows(); }
  [[nodiscard]] bool in_memory() const override { return true; }
  [[nodiscard]] Footprint footprint() const override { return source_->footprint(); }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override;
  [[nodiscard]] const ImageStore* images() const override { return this; }
  [[nodiscard]] std::string fingerprint() const override { return source_->fingerprint(); }
  [[nodiscard]] const Fetchable* fetchable() const override {
    return source_->fetchable() != nullptr ? this : nullptr;
  }
  /// Brings nothing for an image that is kept.
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
  std::unique_ptr<const Prefix> prefix_;  // null: encoded
  Layout layout_;
  std::size_t image_ = 0;  // its field
  mutable ImageStash stash_;
};

}  // namespace trainctl::data
