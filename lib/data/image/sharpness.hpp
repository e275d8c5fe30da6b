#pragma once

#include "data/image/image.hpp"

namespace trainctl::data {

/// torchvision's adjust_sharpness: a blend with the image smoothed over 3x3 pixels, whose border
/// stays as it is. `output` must lie elsewhere.
void adjust_sharpness(const ImageView& input, double factor, ImageTarget& output);

}  // namespace trainctl::data
