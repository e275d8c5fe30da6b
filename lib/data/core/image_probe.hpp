#pragma once

#include "data/core/dataset.hpp"
#include "data/core/transform.hpp"

namespace trainctl::data {

/// Measures up to 256 images, spread over the data set, without those that cannot be read. Sums are
/// for all images of the set, with a tenth more if not all were seen.
struct ImageLook {
  std::int64_t images = 0;   // that were looked at
  std::uint64_t stored = 0;  // bytes of the images as they are stored
  std::uint64_t pixels = 0;  // bytes of their pixels after the fixed transforms
  bool files = false;        // some must be decoded
  std::uint64_t largest_stored = 0;
  ImageShape largest;  // before the transforms
};
ImageLook look_at_images(const Pipeline& pipeline);

/// The size that all images of a data set have, as far as the headers of up to 64 of them tell.
struct CommonSize {
  ImageShape shape;        // not fixed where they differ, or where none could be read
  std::string difference;  // "a.jpg has 375x500 pixels and b.jpg 400x300"; empty otherwise
};
CommonSize common_size(const Dataset& dataset);

/// Passes images of that size on, and throws Error(data) for one of another size.
std::shared_ptr<const Transform> same_size(const ImageShape& shape);

/// What to do about images of several sizes, for the end of a message.
inline constexpr const char* kSizeHint =
    "a batch needs one size: add a transform that gives it, such as {type: random_resized_crop, "
    "size: 224}, or {type: resize, size: 256} and {type: center_crop, size: 224}";

}  // namespace trainctl::data
