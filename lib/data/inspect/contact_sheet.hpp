#pragma once

#include "data/image/image.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainctl::data {

/// An image and what is written below it, as far as there is room: letters as capitals, digits and
/// a few signs.
struct Exhibit {
  ImageView image;  // 1 or 3 channels
  std::string caption;
};

/// RGB pixels with their shape.
struct Sheet {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] ImageView view() const { return {pixels.data(), shape}; }
};

/// The sheet of `count` images of one shape. Throws Error(config) where it would be too large to be
/// of use.
ImageShape sheet_shape(std::int64_t count, const ImageShape& image);

/// The images, all of one shape, in a grid that is about as wide as high; small ones enlarged by a
/// whole factor. Row by row from the top left.
Sheet contact_sheet(std::span<const Exhibit> exhibits);

}  // namespace trainctl::data
