#pragma once

#include "data/core/dataset.hpp"
#include "data/core/transform.hpp"
#include "data/loader/loader.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace trainctl::data {

/// What up to 256 images, spread over the data set, tell of all. Those that cannot be read are left
/// out.
struct ImageLook {
  std::int64_t images = 0;   // that were looked at
  std::uint64_t stored = 0;  // bytes of all images of the set as they are stored; with a tenth more
                             // if not all were seen
  std::uint64_t pixels = 0;  // the same of their pixels behind the fixed transforms
  bool files = false;        // some must be decoded
  std::uint64_t largest_stored = 0;
  ImageShape largest;  // before the transforms
};
/// The i-th of `wanted` indices that are spread over `size` samples, one from each stretch, at
/// another place of it each time: sizes may repeat in the order.
std::int64_t spread_index(std::int64_t i, std::int64_t wanted, std::int64_t size);

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
