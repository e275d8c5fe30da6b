#pragma once

#include <cstdint>
#include <span>

namespace trainctl::data {

constexpr int kDigitSide = 28;
constexpr int kDigitPixels = kDigitSide * kDigitSide;

/// Identifies one synthetic digit. Its image is a pure function of the key.
struct DigitKey {
  std::uint64_t seed = 0;
  std::uint32_t split = 0;
  std::uint64_t index = 0;
};

/// Draws the digit into 28x28 pixels and returns its class. Uses integers only, so that every
/// machine draws the same bytes.
std::uint8_t render_digit(const DigitKey& key, std::span<std::uint8_t, kDigitPixels> pixels);

}  // namespace trainctl::data
