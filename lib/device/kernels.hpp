#pragma once

#include "data/core/pixel_plan.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

// Read by the compiler of the kernels too: C++17 and plain types only.

namespace trainctl::device {

/// One batch to be made of images that lie in one memory, height x width x channels bytes each: the
/// pixels gathered as their plans say, widened and normalized.
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

/// The cross entropy of rows of logits with classes, as torch.nn.functional.cross_entropy with
/// label_smoothing and ignore_index has it, and what each logit moves it by.
struct RowEntropy {
  const float* logits = nullptr;          // [rows, classes]
  const std::int64_t* targets = nullptr;  // a class for each row
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  std::int64_t ignored = -100;  // a target that is no class: its row counts nothing
  float smoothing = 0;
  float* losses = nullptr;     // one for each row
  float* gradients = nullptr;  // like the logits; null: not wanted
  float scale = 1;             // of the gradients
};

/// The largest of some logits of a row, and the sum of exp(logit - largest).
struct RowSum {
  float largest;
  float sum;
};

constexpr RowSum with(const RowSum& part, float logit) {
  if (logit == -std::numeric_limits<float>::infinity()) return part;  // -inf - -inf is no number
  if (logit > part.largest)  // the last term is 1, but of an infinity
    return {logit, part.sum * std::exp(part.largest - logit) + std::exp(logit - logit)};
  return {part.largest, part.sum + std::exp(logit - part.largest)};
}

constexpr RowSum both(const RowSum& some, const RowSum& others) {
  if (others.sum == 0) return some;  // of nothing but -inf
  if (some.sum == 0) return others;
  const float largest = some.largest > others.largest ? some.largest : others.largest;
  return {largest, some.sum * std::exp(some.largest - largest) +
                       others.sum * std::exp(others.largest - largest)};
}

// `lanes` lanes share a row, each has every lanes-th logit of it. The same code on a GPU, where a
// lane is a thread, and on a CPU.

constexpr RowSum lane_sum(const RowEntropy& job, std::int64_t row, int lane, int lanes) {
  const float* logits = job.logits + row * job.classes;
  RowSum part{-std::numeric_limits<float>::infinity(), 0};
  for (std::int64_t c = lane; c < job.classes; c += lanes) part = with(part, logits[c]);
  return part;
}

constexpr float log_probability(const RowEntropy& job, std::int64_t row, std::int64_t c,
                                const RowSum& whole) {
  return job.logits[row * job.classes + c] - whole.largest - std::log(whole.sum);
}

/// Writes the lane's part of the row's gradient; returns the sum of its log probabilities.
constexpr float lane_gradients(const RowEntropy& job, std::int64_t row, const RowSum& whole,
                               int lane, int lanes) {
  if (job.gradients == nullptr && job.smoothing == 0) return 0;  // nobody asks
  const std::int64_t target = job.targets[row];
  const bool counts = target != job.ignored;
  const float each = job.smoothing / static_cast<float>(job.classes);
  // What is no class shows up as a loss that is not finite.
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

constexpr float row_loss(const RowEntropy& job, std::int64_t row, const RowSum& whole,
                         float sum_of_log_p) {
  const std::int64_t target = job.targets[row];
  if (target == job.ignored) return 0;
  if (target < 0 || target >= job.classes) return std::numeric_limits<float>::quiet_NaN();
  const float own = -log_probability(job, row, target, whole);
  if (job.smoothing == 0) return own;  // 0 times an infinite sum is no number
  const float each = job.smoothing / static_cast<float>(job.classes);
  return (1 - job.smoothing) * own - each * sum_of_log_p;
}

/// The kernel's work on a CPU.
void row_entropy_on_host(const RowEntropy& job);

// The kernels of kernels.cu; no_kernels.cpp, built instead where no CUDA compiler was found, says
// so.

/// Whether this build has kernels.
bool kernels_built();

/// Starts the kernel that makes the batch, on a stream (a cudaStream_t) of the current device; all
/// pointers are the device's. Waits for nothing and allocates nothing. Returns what went wrong, or
/// null.
const char* launch_gather(const Gather& job, float* inputs_nchw, void* stream);

/// The same of the kernel that makes losses and gradients. A row's numbers are added in one order,
/// so they have the same bits every time.
const char* launch_row_entropy(const RowEntropy& job, void* stream);

}  // namespace trainctl::device
