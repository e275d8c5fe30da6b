#pragma once

#include <cstdint>

// CUDA sources include this file: use only C++17 and plain types of the standard library.

namespace trainctl::data {

/// One axis of an image that is not rendered yet. Pixel i is source pixel `first + i * step` where
/// begin <= i < end, and the fill color elsewhere. A source pixel before the first or after the
/// last one is reflected: -1 is pixel 1.
struct PlannedAxis {
  std::int32_t first = 0;
  std::int32_t step = 1;  // -1: mirrored
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t erased_begin = 0;  // erased box, drawn over everything; empty if begin == end
  std::int32_t erased_end = 0;
};

/// The geometry that the random transforms produce for one image, without its pixels. A loader
/// sends a batch of plans instead of pixels to a device that holds the images.
struct PixelPlan {
  std::int64_t sample = 0;  // index into the images on the device
  PlannedAxis rows;
  PlannedAxis columns;
};
static_assert(sizeof(PixelPlan) == 56, "plans are copied to a device byte by byte");

/// The value of a channel is a byte of the source or one of these codes for the two fill colors.
constexpr int kFilled = 256;
constexpr int kErased = 257;
constexpr int kPixelCodes = 258;

constexpr std::int32_t reflected(std::int32_t at, std::int32_t extent) {
  const std::int32_t from_begin = at < 0 ? -at : at;
  return from_begin < extent ? from_begin : 2 * (extent - 1) - from_begin;
}

/// The source of pixel (row, column) of a planned image: a row-major index into the source, or one
/// of these codes.
constexpr std::int64_t kFromFill = -1;
constexpr std::int64_t kFromErasing = -2;
constexpr std::int64_t source_pixel(const PixelPlan& plan, std::int32_t source_height,
                                    std::int32_t source_width, std::int32_t row,
                                    std::int32_t column) {
  const PlannedAxis& y = plan.rows;
  const PlannedAxis& x = plan.columns;
  if (row >= y.erased_begin && row < y.erased_end && column >= x.erased_begin &&
      column < x.erased_end)
    return kFromErasing;
  if (row < y.begin || row >= y.end || column < x.begin || column >= x.end) return kFromFill;
  return std::int64_t{reflected(y.first + row * y.step, source_height)} * source_width +
         reflected(x.first + column * x.step, source_width);
}

/// Returns the code of one channel of that pixel. `image` is the source, height x width x channels.
constexpr int pixel_code(const std::uint8_t* image, std::int64_t pixel, std::int64_t channels,
                         std::int64_t channel) {
  if (pixel == kFromFill) return kFilled;
  return pixel == kFromErasing ? kErased : image[pixel * channels + channel];
}

}  // namespace trainctl::data
