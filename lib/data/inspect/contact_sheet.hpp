#pragma once

#include "data/image/image.hpp"

namespace trainctl::data {

/// Returns the RGB color of a class in drawn masks; ignored pixels are white.
std::array<std::uint8_t, 3> class_color(std::uint8_t label);

/// An image with a caption, which is cut off at the image width. The font has capital letters,
/// digits and a few signs.
struct SheetImage {
  ImageView image;  // 1 or 3 channels, or one more: a mask, which is drawn next to the image
  std::string caption;
};

/// RGB pixels with their shape.
struct Sheet {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] ImageView view() const { return {pixels.data(), shape}; }
};

/// Returns the shape of a sheet of `count` images of one shape. Throws Error(config) when the sheet
/// would be too large.
ImageShape sheet_shape(std::int64_t count, const ImageShape& image);

/// Arranges images of one shape in a grid that is about square, row by row from the top left. Small
/// images are enlarged by an integer factor.
Sheet contact_sheet(std::span<const SheetImage> images);

}  // namespace trainctl::data
