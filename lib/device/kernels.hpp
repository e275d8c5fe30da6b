#pragma once

#include "data/core/pixel_plan.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

// The CUDA compiler reads this file, too: C++17 and plain types only.

namespace trainctl::device {

/// Builds one batch from images in one block of memory, with height x width x channels bytes each:
/// gathers the pixels according to their plans, converts them to float and normalizes them.
struct Gather {
  const std::uint8_t* images = nullptr;
  std::int64_t image_bytes = 0;
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

/// The cross entropy of rows of logits with class targets, like torch.nn.functional.cross_entropy
/// with label_smoothing and ignore_index, and its gradient with respect to the logits.
struct RowEntropy {
  const float* logits = nullptr;          // [rows, classes]
  const std::int64_t* targets = nullptr;  // [rows]: one class per row
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  std::int64_t ignored = -100;  // target of rows whose loss is 0
  float smoothing = 0;
  float* losses = nullptr;     // [rows]
  float* gradients = nullptr;  // shape of the logits; null: not computed
  float scale = 1;             // factor of the gradients
};

/// The largest of a set of logits of a row, and the sum of exp(logit - largest).
struct RowSum {
  float largest;
  float sum;
};

/// Adds a logit to the sum.
constexpr RowSum with(const RowSum& part, float logit) {
  if (logit == -std::numeric_limits<float>::infinity()) return part;  // -inf - -inf would be NaN
  if (logit > part.largest)  // the last term is 1, or NaN for an infinite logit
    return {logit, part.sum * std::exp(part.largest - logit) + std::exp(logit - logit)};
  return {part.largest, part.sum + std::exp(logit - part.largest)};
}

/// Merges the sums of two sets of logits.
constexpr RowSum both(const RowSum& some, const RowSum& others) {
  if (others.sum == 0) return some;  // only -inf so far
  if (some.sum == 0) return others;
  const float largest = some.largest > others.largest ? some.largest : others.largest;
  return {largest, some.sum * std::exp(some.largest - largest) +
                       others.sum * std::exp(others.largest - largest)};
}

// `lanes` lanes share a row, and each processes every lanes-th logit. The same code runs on a GPU,
// where a lane is a thread, and on a CPU.

constexpr RowSum lane_sum(const RowEntropy& job, std::int64_t row, int lane, int lanes) {
  const float* logits = job.logits + row * job.classes;
  RowSum part{-std::numeric_limits<float>::infinity(), 0};
  for (std::int64_t c = lane; c < job.classes; c += lanes) part = with(part, logits[c]);
  return part;
}

/// Returns the log-softmax of logit c of the row.
constexpr float log_probability(const RowEntropy& job, std::int64_t row, std::int64_t c,
                                const RowSum& whole) {
  return job.logits[row * job.classes + c] - whole.largest - std::log(whole.sum);
}

/// Writes the lane's part of the row's gradient and returns the sum of its log probabilities.
constexpr float lane_gradients(const RowEntropy& job, std::int64_t row, const RowSum& whole,
                               int lane, int lanes) {
  if (job.gradients == nullptr && job.smoothing == 0) return 0;  // neither result is needed
  const std::int64_t target = job.targets[row];
  const bool counts = target != job.ignored;
  const float each = job.smoothing / static_cast<float>(job.classes);
  // An invalid class shows up as a non-finite loss.
  const bool valid = target >= 0 && target < job.classes;
  const float scale = valid ? job.scale : std::numeric_limits<float>::quiet_NaN();
  float sum = 0;
  for (std::int64_t c = lane; c < job.classes; c += lanes) {
    const float log_p = log_probability(job, row, c, whole);
    sum += log_p;
    if (job.gradients == nullptr) continue;
    const float wanted = each + (c == target ? 1 - job.smoothing : 0);
    job.gradients[row * job.classes + c] = counts ? (std::exp(log_p) - wanted) * scale : 0;
  }
  return sum;
}

/// Returns the loss of the row; NaN for an invalid class. `sum_of_log_p` is used only with
/// smoothing.
constexpr float row_loss(const RowEntropy& job, std::int64_t row, const RowSum& whole,
                         float sum_of_log_p) {
  const std::int64_t target = job.targets[row];
  if (target == job.ignored) return 0;
  if (target < 0 || target >= job.classes) return std::numeric_limits<float>::quiet_NaN();
  const float own = -log_probability(job, row, target, whole);
  if (job.smoothing == 0) return own;  // 0 times an infinite sum would be NaN
  const float each = job.smoothing / static_cast<float>(job.classes);
  return (1 - job.smoothing) * own - each * sum_of_log_p;
}

/// Does the work of row_entropy_kernel on a CPU.
void row_entropy_on_host(const RowEntropy& job);

/// Returns whether this build has kernels that run on the current GPU. Without a GPU, returns
/// whether it has any. A worker uses one kind of GPU, so the first answer holds for the process.
bool kernels_built();

/// Returns whether kernels for `architectures`, in the form of CMAKE_CUDA_ARCHITECTURES ("80-real
/// 90-real 120"), run on a GPU of that architecture (90 for compute capability 9.0). Machine code
/// runs on the same major version with at least the same minor version; an entry without "-real"
/// also contains PTX, which the driver compiles for all later GPUs.
bool kernels_run_on(std::string_view architectures, int architecture);

// kernels.cu implements these functions; no_kernels.cpp is built instead without a CUDA compiler,
// and returns an error.

/// Launches the kernel that builds the batch, on a stream (a cudaStream_t) of the current device;
/// all pointers are device pointers. Neither waits nor allocates. Returns an error message, or
/// null.
const char* launch_gather(const Gather& job, float* inputs_nchw, void* stream);

/// Launches the kernel that computes losses and gradients, in the same way. The order of additions
/// within a row is fixed, so the results are reproducible bit for bit.
const char* launch_row_entropy(const RowEntropy& job, void* stream);

}  // namespace trainctl::device
