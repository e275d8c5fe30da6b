#pragma once

#include <cstdint>
#include <span>

namespace trainctl::data {

/// Weights of a blend between an image and what it is blended with.
struct Blend {
  explicit Blend(double factor)
      : own(static_cast<float>(factor)), other(static_cast<float>(1.0 - factor)) {}
  float own;
  float other;
};

/// Three rows of values, the middle one of which is sharpened; neighbours lie `step` apart.
struct RowsToSharpen {
  const std::uint8_t* above;
  const std::uint8_t* here;
  const std::uint8_t* below;
  std::int64_t step;
};

/// Rows in torch's arithmetic, in which a multiply and an add are rounded once: std::fma(), which
/// is a call unless the compiler may count on the instruction. All write in place too.
struct BlendKernels {
  const char* name;
  /// RGB pixels, blended with their luma.
  void (*saturate)(const std::uint8_t* from, std::int64_t pixels, const Blend& blend,
                   std::uint8_t* to);
  /// The luma of RGB pixels in all channels.
  void (*gray)(const std::uint8_t* from, std::int64_t pixels, std::uint8_t* to);
  std::int64_t (*sum_of_luma)(const std::uint8_t* from, std::int64_t pixels);
  /// `count` values, blended with their surroundings.
  void (*sharpen)(const RowsToSharpen& rows, std::int64_t count, float other, std::uint8_t* to);
};

/// Those that this CPU can run, the reference first and the fastest last. Every one gives the same
/// bytes.
std::span<const BlendKernels> blend_kernels();

}  // namespace trainctl::data
