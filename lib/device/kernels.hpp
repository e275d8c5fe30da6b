#pragma once

#include "data/core/pixel_plan.hpp"
#include "device/add_norm.hpp"
#include "device/average_weights.hpp"
#include "device/batch_norm_relu.hpp"
#include "device/bias_gelu.hpp"
#include "device/row_entropy.hpp"

#include <cstdint>
#include <string_view>

// The CUDA compiler reads this file, too: C++17 and plain types only.

namespace trainctl::device {

/// Builds one batch from images in one block of memory, with height x width x channels bytes each:
/// gathers the pixels according to their plans, converts them to float and normalizes them.
struct Gather {
  const std::uint8_t* images = nullptr;
  std::int64_t image_bytes = 0;
  std::int32_t source_height = 0;
  std::int32_t source_width = 0;
  /// One per row; null: row i is image i unchanged.
  const data::PixelPlan* plans = nullptr;
  /// kPixelCodes floats per channel: the value of each byte, of the fill color and of erased
  /// pixels.
  const float* values = nullptr;
  std::int64_t rows = 0;
  std::int32_t height = 0;  // of the output
  std::int32_t width = 0;
  std::int32_t channels = 0;
};

/// Computes all channels of one pixel of an [N, C, H, W] batch. CPU and GPU run the same code, so
/// they produce the same bits.
constexpr void gather_pixel(const Gather& job, float* inputs_nchw, std::int64_t row,
                            std::int32_t pixel) {
  std::int64_t sample = row;
  std::int64_t source = pixel;
  if (job.plans != nullptr) {
    const data::PixelPlan& plan = job.plans[row];
    sample = plan.sample;
    source = data::source_pixel(plan, job.source_height, job.source_width, pixel / job.width,
                                pixel % job.width);
  }
  const std::uint8_t* image = job.images + sample * job.image_bytes;
  const std::int64_t pixels = std::int64_t{job.height} * job.width;
  for (std::int32_t channel = 0; channel < job.channels; ++channel) {
    const int code = data::pixel_code(image, source, job.channels, channel);
    inputs_nchw[(row * job.channels + channel) * pixels + pixel] =
        job.values[channel * data::kPixelCodes + code];
  }
}

/// Returns whether this build has kernels that run on the current GPU. Without a GPU, returns
/// whether it has any. A worker uses one kind of GPU, so the first answer holds for the process.
bool kernels_built();

/// Returns whether kernels for `architectures`, in the form of CMAKE_CUDA_ARCHITECTURES ("80-real
/// 90-real 120"), run on a GPU of that architecture (90 for compute capability 9.0). Machine code
/// runs on the same major version with at least the same minor version; an entry without "-real"
/// also contains PTX, which the driver compiles for all later GPUs. Code for "90a" runs on this
/// architecture only, and code for "100f" on later minor versions only.
bool kernels_run_on(std::string_view architectures, int architecture);

// kernels.cu and fused_kernels.cu implement these functions; no_kernels.cpp is built instead
// without a CUDA compiler, and returns an error. They launch kernels on a stream (a cudaStream_t)
// of the current device; all pointers are device pointers. They neither wait nor allocate, so that
// a CUDA graph can capture them. Sums have a fixed order, so the results are reproducible bit for
// bit. They return an error message, or null.

/// Builds a batch.
const char* launch_gather(const Gather& job, float* inputs_nchw, void* stream);

/// Computes losses, gradients, or both.
const char* launch_row_entropy(const RowEntropy& job, void* stream);

const char* launch_add_norm(const AddNorm& job, void* stream);
const char* launch_add_norm_backward(const AddNormBackward& job, void* stream);
const char* launch_bias_gelu(const BiasGelu& job, void* stream);
const char* launch_batch_moments(const BatchMoments& job, void* stream);
const char* launch_batch_norm_relu(const BatchNormRelu& job, void* stream);
const char* launch_batch_norm_relu_backward(const BatchNormReluBackward& job, void* stream);
const char* launch_average_weights(const AverageWeights& job, void* stream);

}  // namespace trainctl::device
