#pragma once

#include "data/core/batch_transform.hpp"

#include <cstdint>

namespace trainctl::data {

/// CutMix's box about a pixel, cut off at the border; its area is 1 - lambda of the image where
/// nothing is.
Box cutmix_box(double lambda, std::int64_t x, std::int64_t y, const ImageShape& image);

/// Mixes two images of one shape into each other, in place. Halves of a level are rounded up.
void mix_images(const Mix& mix, const ImageShape& image, std::uint8_t* one, std::uint8_t* other);

}  // namespace trainctl::data
