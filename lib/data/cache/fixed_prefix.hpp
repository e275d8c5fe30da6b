#pragma once

#include "data/core/parallel.hpp"
#include "data/image/codec/decoder.hpp"
#include "data/loader/loader.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace trainctl::data {

/// Number of transforms before the first random one.
std::size_t fixed_prefix(const Pipeline& pipeline);
/// Takes them out, as a data set in place of the pipeline's has done them; the draws of the others
/// keep their numbers.
void drop_fixed_prefix(Pipeline& pipeline);

/// Makes the pixels of a sample behind the transforms of the fixed prefix: what decoded caches and
/// packs keep. Called from several threads.
class Prefix {
 public:
  explicit Prefix(const Pipeline& pipeline);

  [[nodiscard]] const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  /// Height and width are 0 where each sample has its own.
  [[nodiscard]] const ImageShape& shape() const { return shape_; }
  /// Shape of one image as its head tells it. Throws Error(data).
  [[nodiscard]] ImageShape shape_before(const StoredImage& image) const;
  /// What the transforms make of it.
  [[nodiscard]] ImageShape shape_behind(ImageShape shape) const;
  /// The pixels lie in `out`. Throws Error(data).
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
