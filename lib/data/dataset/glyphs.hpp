#pragma once

#include <cstdint>
#include <span>

namespace trainctl::data {

struct GlyphPoint {
  std::int8_t x;
  std::int8_t y;
};

/// A connected stroke: straight lines from point to point.
using Stroke = std::span<const GlyphPoint>;

/// One way to write a digit, in a box of 100 x 100 units, y downwards.
using Glyph = std::span<const Stroke>;

/// The ways to write `digit` (0 to 9), at least two.
std::span<const Glyph> glyphs_of(int digit);

}  // namespace trainctl::data
