#pragma once

#include "base/error.hpp"
#include "base/random.hpp"
#include "data/image/image.hpp"

namespace trainctl::data {

/// A range from which a number is drawn.
struct Range {
  double low = 0;
  double high = 0;
};

/// Parses angles like torchvision: x for -x to x, or minimum and maximum, starting at index
/// `first`.
inline Range angles(const char* name, const std::vector<double>& values, std::size_t first = 0) {
  if (values.size() == 1) {
    ENSURE(config, values[0] >= 0,
           "{} must not be negative, got {}\nhint: a single number x means the range from -x to x",
           name, values[0]);
    return {-values[0], values[0]};
  }
  ENSURE(config, values.size() >= first + 2,
         "{} must be one number or [smallest, largest], got {} values", name, values.size());
  ENSURE(config, values[first] <= values[first + 1], "{} must be [smallest, largest], got [{}, {}]",
         name, values[first], values[first + 1]);
  return {values[first], values[first + 1]};
}

/// Parses `size: 224` or `size: [height, width]`. Throws Error(config).
inline Extents size_of_options(const std::vector<int>& values) {
  ENSURE(config, values.size() == 1 || values.size() == 2,
         "size must have 1 or 2 values, got {}\nhint: set size: 224 for a square, or size: "
         "[height, width]",
         values.size());
  return {values.front(), values.back()};
}

/// Returns a draw from [low, high), or `low` if both are equal.
inline double draw_between(CounterRng& rng, double low, double high) {
  return low + static_cast<double>(rng.uniform()) * (high - low);
}

/// Draws the start of a part of `size` pixels on an axis of `extent` pixels.
inline std::int64_t draw_place(std::int64_t extent, std::int64_t size, CounterRng& rng) {
  return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(extent - size + 1)));
}

}  // namespace trainctl::data
