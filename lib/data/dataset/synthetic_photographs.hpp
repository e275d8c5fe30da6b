#pragma once

#include "data/image/image.hpp"

namespace trainctl::data {

constexpr ImageShape kPhotographShape{375, 500, 3};

/// Identifies one synthetic photograph. Its image is a pure function of the key.
struct PhotographKey {
  std::uint32_t split = 0;
  std::uint64_t index = 0;
};

/// Returns the classes, sorted by name.
const std::vector<std::string>& photograph_classes();

/// Returns the class of the photograph as an index into photograph_classes().
std::size_t photograph_class(const PhotographKey& key);

/// Draws the RGB pixels: a landscape with the spectrum, edges and grain of a photograph, so that
/// its JPEG file has a realistic size. Uses integers only, so that every machine draws the same
/// pixels.
std::vector<std::uint8_t> draw_photograph(const PhotographKey& key);

}  // namespace trainctl::data
