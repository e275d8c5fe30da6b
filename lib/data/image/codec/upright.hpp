#pragma once

#include "data/image/image.hpp"

namespace trainctl::data {

/// Extents of an image once it is turned as `orientation` (TIFF's and EXIF's, 1 to 8) says.
Extents upright_extents(const Extents& stored, int orientation);

/// Writes a box of the image that `stored` is once it is turned; rows without gaps.
void copy_upright(const ImageView& stored, int orientation, const Box& box, std::uint8_t* out);

}  // namespace trainctl::data
