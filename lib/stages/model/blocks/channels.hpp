#pragma once

#include <algorithm>
#include <cstdint>

namespace trainctl::stages {

/// A number of channels scaled by a width, rounded to a multiple of 8 as torchvision does: never
/// more than a tenth below what was asked.
inline std::int64_t divisible_channels(double channels) {
  constexpr std::int64_t kDivisor = 8;
  const auto rounded = static_cast<std::int64_t>(channels + kDivisor / 2.0) / kDivisor * kDivisor;
  const std::int64_t result = std::max(kDivisor, rounded);
  return static_cast<double>(result) < 0.9 * channels ? result + kDivisor : result;
}

}  // namespace trainctl::stages
