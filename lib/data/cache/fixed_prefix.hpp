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

}  // namespace trainctl::data
