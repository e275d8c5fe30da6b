#pragma once

#include "data/image/geometry.hpp"
#include "data/image/image.hpp"

namespace trainctl::data {

/// torchvision's erase: the pixels of `box` become `value`.
void erase(const ImageView& input, const Box& box, const Fill& value, ImageTarget& output);

}  // namespace trainctl::data
