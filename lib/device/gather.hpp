#pragma once

#include "data/core/pixel_plan.hpp"

#include <cstddef>
#include <cstdint>

// Read by the compiler of the kernels too: C++17 and plain types only.

namespace trainctl::device {

/// One batch to be made of images that lie in one memory, height x width x channels bytes each: the
/// pixels gathered as their plans say, widened and normalised.
struct Gather {
  const std::uint8_t* images = nullptr;
  std::int64_t image_bytes = 0;
  std::int32_t source_width = 0;
  /// One for each row; null: row i is image i as it is.
  const data::PixelPlan* plans = nullptr;
  /// kPixelCodes floats for each channel: the value of each byte, of the fill and of what is
  /// erased.
  const float* values = nullptr;
  std::int64_t rows = 0;
  std::int32_t height = 0;  // of what is made
  std::int32_t width = 0;
  std::int32_t channels = 0;
};

/// Makes one pixel, all its channels, of a batch N, C, H, W. The same code on a GPU and on a CPU,
/// so the same bits.
constexpr void gather_pixel(const Gather& job, float* inputs_nchw, std::int64_t row,
                            std::int32_t pixel) {
  std::int64_t sample = row;
  std::int64_t source = pixel;
  if (job.plans != nullptr) {
    const data::PixelPlan& plan = job.plans[row];
    sample = plan.sample;
    source = data::source_pixel(plan, job.source_width, pixel / job.width, pixel % job.width);
  }
  const std::uint8_t* image = job.images + sample * job.image_bytes;
  const std::int64_t pixels = std::int64_t{job.height} * job.width;
  for (std::int32_t channel = 0; channel < job.channels; ++channel) {
    const int code = data::pixel_code(image, source, job.channels, channel);
    inputs_nchw[(row * job.channels + channel) * pixels + pixel] =
        job.values[channel * data::kPixelCodes + code];
  }
}

}  // namespace trainctl::device
