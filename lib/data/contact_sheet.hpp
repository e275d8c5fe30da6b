#pragma once

#include "data/image/image.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trainctl::data {

/// An image and what is written below it.
struct Exhibit {
  ImageView image;  // 1 or 3 channels
  std::optional<std::int64_t> label;
};

/// RGB pixels with their shape.
struct Sheet {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] ImageView view() const { return {pixels.data(), shape}; }
};

/// The images, all of one shape, in a grid that is about as wide as high; small ones enlarged by a
/// whole factor. Row by row from the top left.
Sheet contact_sheet(std::span<const Exhibit> exhibits);

}  // namespace trainctl::data
