#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

namespace trainctl::data {

/// The weights of a blend of an image with another image.
struct Blend {
  explicit Blend(double factor)
      : own(static_cast<float>(factor)), other(static_cast<float>(1.0 - factor)) {}
  float own;
  float other;
};

/// Three rows of values; the middle one is sharpened. Horizontal neighbors are `step` values apart.
struct RowsToSharpen {
  const std::uint8_t* above;
  const std::uint8_t* here;
  const std::uint8_t* below;
  std::int64_t step;
};

/// Row functions in torch's arithmetic, where a multiply-add rounds once. std::fma() does that, but
/// is a library call unless the target has the instruction. All may run in place.
struct BlendKernels {
  const char* name;
  /// Blends RGB pixels with their luma.
  void (*saturate)(const std::uint8_t* from, std::int64_t pixels, const Blend& blend,
                   std::uint8_t* to);
  /// Writes the luma of RGB pixels to all channels.
  void (*gray)(const std::uint8_t* from, std::int64_t pixels, std::uint8_t* to);
  /// Returns the sum of the luma of RGB pixels.
  std::int64_t (*sum_of_luma)(const std::uint8_t* from, std::int64_t pixels);
  /// Blends `count` values with the smoothed values around them.
  void (*sharpen)(const RowsToSharpen& rows, std::int64_t count, float other, std::uint8_t* to);
};

/// Returns the kernels that this CPU supports: the reference first, the fastest last. All give the
/// same bytes.
std::span<const BlendKernels> blend_kernels();

/// Returns the reference, which runs on any CPU.
const BlendKernels& portable_blend();

// The loops of the blend kernels. They are inlined into one function per instruction set.

#define TRAINCTL_ROW __attribute__((always_inline)) inline

TRAINCTL_ROW std::uint8_t clamped(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

/// Returns the luma of an RGB pixel, truncated to an integer.
TRAINCTL_ROW int luma(const std::uint8_t* pixel) {
  const float red = static_cast<float>(pixel[0]) * 0.2989F;
  const float more = std::fma(static_cast<float>(pixel[1]), 0.587F, red);
  return static_cast<int>(std::fma(static_cast<float>(pixel[2]), 0.114F, more));
}

TRAINCTL_ROW std::uint8_t blended(std::uint8_t value, float with, const Blend& blend) {
  return clamped(std::fma(with, blend.other, static_cast<float>(value) * blend.own));
}

/// Calls `work(from, pixels, to)` for parts of a row; `from` and `to` never overlap.
template <class Work>
TRAINCTL_ROW void in_parts(const std::uint8_t* from, std::int64_t pixels, std::uint8_t* to,
                           Work&& work) {
  constexpr std::int64_t kPart = 256;
  std::uint8_t copy[3 * kPart];
  for (std::int64_t left = pixels; left > 0; left -= kPart, from += 3 * kPart, to += 3 * kPart) {
    const std::int64_t count = std::min(left, kPart);
    std::memcpy(copy, from, static_cast<std::size_t>(3 * count));
    work(copy, count, to);
  }
}

TRAINCTL_ROW void saturate_row(const std::uint8_t* from, std::int64_t pixels, const Blend& blend,
                               std::uint8_t* to) {
  in_parts(
      from, pixels, to,
      [weights = blend](const std::uint8_t* __restrict in, std::int64_t count,
                        std::uint8_t* __restrict out) __attribute__((always_inline)) {
        for (std::int64_t i = 0; i < 3 * count; i += 3) {
          const auto gray = static_cast<float>(luma(in + i));
          out[i] = blended(in[i], gray, weights);
          out[i + 1] = blended(in[i + 1], gray, weights);
          out[i + 2] = blended(in[i + 2], gray, weights);
        }
      });
}

TRAINCTL_ROW void gray_row(const std::uint8_t* from, std::int64_t pixels, std::uint8_t* to) {
  in_parts(
      from, pixels, to,
      [](const std::uint8_t* __restrict in, std::int64_t count, std::uint8_t* __restrict out)
          __attribute__((always_inline)) {
            for (std::int64_t i = 0; i < 3 * count; i += 3) {
              const auto gray = static_cast<std::uint8_t>(luma(in + i));
              out[i] = gray;
              out[i + 1] = gray;
              out[i + 2] = gray;
            }
          });
}

TRAINCTL_ROW std::int64_t sum_of_luma_row(const std::uint8_t* from, std::int64_t pixels) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < 3 * pixels; i += 3) sum += luma(from + i);
  return sum;
}

/// Smooths with weight 5 at the center and 1 around it, divided by 13. No sum lies halfway between
/// two levels, so rounding is unambiguous.
TRAINCTL_ROW int smoothed(const RowsToSharpen& rows, std::int64_t i) {
  const std::int64_t step = rows.step;
  const int around = rows.above[i - step] + rows.above[i] + rows.above[i + step] +
                     rows.here[i - step] + rows.here[i + step] + rows.below[i - step] +
                     rows.below[i] + rows.below[i + step];
  return (2 * (around + 5 * rows.here[i]) + 13) / 26;
}

TRAINCTL_ROW void sharpen_row(const RowsToSharpen& given, std::int64_t count, float other,
                              std::uint8_t* __restrict to) {
  const RowsToSharpen rows = given;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto own = static_cast<float>(rows.here[i]);
    to[i] = clamped(std::fma(static_cast<float>(smoothed(rows, i)) - own, other, own));
  }
}

/// Rounds half to even, like torch's round(), for |x| below 2^22. Uses only additions, so that
/// loops vectorize.
inline float round_half_even(float x) {
  constexpr float kShift = 0x1.8p23F;
  return (x + kShift) - kShift;
}

}  // namespace trainctl::data
