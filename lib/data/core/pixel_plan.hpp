#pragma once

#include <cstdint>

// Read by the compiler of the kernels too: C++17 and the standard library's plain types only.

namespace trainctl::data {

/// One axis of an image that is not made yet. Its pixel i is pixel `first + i * step` of the source
/// where begin <= i < end, and the fill elsewhere.
struct PlannedAxis {
  std::int32_t first = 0;
  std::int32_t step = 1;  // -1: mirrored
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t erased_begin = 0;  // the erased box, over everything; empty where there is none
  std::int32_t erased_end = 0;
};

/// What the random transforms make of one image, told without its pixels: a batch of these in place
/// of pixels is what a loader hands to a device that keeps the images itself.
struct PixelPlan {
  std::int64_t sample = 0;  // of the images that are kept
  PlannedAxis rows;
  PlannedAxis columns;
};
static_assert(sizeof(PixelPlan) == 56, "plans are copied to a device byte by byte");

/// The value of a pixel's channel: a byte of the source, or one of these two colors.
constexpr int kFilled = 256;
constexpr int kErased = 257;
constexpr int kPixelCodes = 258;

/// Where the pixel (row, column) of a planned image comes from: a pixel of the source, counted row
/// by row, or one of these.
constexpr std::int64_t kFromFill = -1;
constexpr std::int64_t kFromErasing = -2;
constexpr std::int64_t source_pixel(const PixelPlan& plan, std::int64_t source_width,
                                    std::int32_t row, std::int32_t column) {
  const PlannedAxis& y = plan.rows;
  const PlannedAxis& x = plan.columns;
  if (row >= y.erased_begin && row < y.erased_end && column >= x.erased_begin &&
      column < x.erased_end)
    return kFromErasing;
  if (row < y.begin || row >= y.end || column < x.begin || column >= x.end) return kFromFill;
  return (y.first + row * y.step) * source_width + x.first + column * x.step;
}

/// The code of a channel of that pixel; `image` is the source, height x width x channels.
constexpr int pixel_code(const std::uint8_t* image, std::int64_t pixel, std::int64_t channels,
                         std::int64_t channel) {
  if (pixel == kFromFill) return kFilled;
  return pixel == kFromErasing ? kErased : image[pixel * channels + channel];
}

}  // namespace trainctl::data
