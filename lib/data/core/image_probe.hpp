#pragma once

#include "data/core/transform.hpp"

namespace trainctl::data {

/// The result of probing up to 256 readable images, spread over the data set. The byte counts are
/// extrapolated to all images, plus a tenth when not all images were probed.
struct ImageSizes {
  std::int64_t images = 0;   // images that were probed
  std::uint64_t stored = 0;  // bytes of the images as they are stored
  std::uint64_t pixels = 0;  // bytes of the pixels after the fixed transforms
  bool files = false;        // at least one image is encoded
  std::uint64_t largest_stored = 0;
  ImageShape largest;  // before the transforms
};
/// Probes the images of the pipeline. Damaged images are skipped; the loader reports them.
ImageSizes probe_image_sizes(const Pipeline& pipeline);

/// The common size of all images of a data set, according to the headers of up to 64 images.
struct CommonSize {
  ImageShape shape;        // not fixed when sizes differ or no image could be read
  std::string difference;  // "a.jpg has 375x500 pixels and b.jpg 400x300"; empty otherwise
};
CommonSize common_size(const Dataset& dataset);

/// Returns a warning if up to 16 masks have the value 255 but no class above 0, or an empty text.
/// Reads no more masks after one with another value.
std::string mask_warning(const Dataset& dataset);

/// Returns a transform that passes images of that size through and throws Error(data) for any other
/// size.
std::shared_ptr<const Transform> same_size(const ImageShape& shape);

/// The end of messages about images of several sizes.
inline constexpr const char* kSizeHint =
    "add a transform that gives all images one size, such as {type: random_resized_crop, size: "
    "224}, or {type: resize, size: 256} followed by {type: center_crop, size: 224}";

}  // namespace trainctl::data
