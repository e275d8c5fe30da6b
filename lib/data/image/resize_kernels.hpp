#pragma once

#include "data/image/resize_weights.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainctl::data {

/// Bits behind the point of the values between the passes: a level of 255 still fits into 16 signed
/// bits.
constexpr int kMiddleBits = 7;
/// Most rows that one call of a horizontal kernel makes.
constexpr int kMostRows = 4;

/// The weighted sum of several rows, byte by byte.
struct VerticalJob {
  const std::uint8_t* const* rows = nullptr;  // 2 * pairs of them
  const std::int16_t* weights = nullptr;
  int pairs = 0;
  int precision = 0;
  std::int64_t count = 0;
  std::int16_t* out = nullptr;
};

/// The weighted sums along as many rows as the kernel makes; behind the last pixel of each lie
/// enough zeros for any load.
struct HorizontalJob {
  std::array<const std::int16_t*, kMostRows> in{};
  std::array<std::uint8_t*, kMostRows> out{};
  std::size_t rows = 0;
  const AxisWeights* axis = nullptr;
  std::int64_t channels = 3;
};

/// One implementation of the two passes.
struct ResizeKernels {
  const char* name;
  int rows;  // that its horizontal pass makes at once
  void (*vertical)(const VerticalJob& job);
  void (*horizontal)(const HorizontalJob& job);
};

/// The reference.
const ResizeKernels& scalar_resize();
/// Those that this CPU can run, the reference first and the fastest last.
const std::vector<ResizeKernels>& resize_kernels();

/// Parts of the reference, for the ends that are narrower than a vector.
void vertical_from(const VerticalJob& job, std::int64_t first);
void horizontal_from(const HorizontalJob& job, std::int64_t first);

}  // namespace trainctl::data
