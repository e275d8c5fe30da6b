#pragma once

#include "device/row_math.hpp"

// The CUDA compiler reads this file, too: C++17 and plain types only.

namespace trainctl::device {

constexpr int kQuad = 4;                 // columns that a lane processes together
constexpr std::int64_t kMaxNorm = 4096;  // widest row, which limits the shared memory
/// Parts into which a sum over rows is divided. The number does not depend on the GPU, so that all
/// GPUs add in the same order.
constexpr std::int64_t kMaxParts = 512;

/// The residual connection and the layer norm after it in a transformer: sum = x + branch, and
/// normed = (sum - mean) / sqrt(variance + eps) * weight + bias. Rows are a multiple of kQuad and
/// at most kMaxNorm columns wide, and all pointers are aligned to kPackBytes.
struct AddNorm {
  const float* x = nullptr;         // [rows, width]
  const void* branch = nullptr;     // [rows, width]; null: sum = x, which is not written
  Element type = Element::float32;  // of `branch` and `normed`
  const float* weight = nullptr;    // [width]
  const float* bias = nullptr;      // [width]
  std::int64_t rows = 0;
  std::int64_t width = 0;
  float eps = 0;
  float* sum = nullptr;    // [rows, width]
  void* normed = nullptr;  // [rows, width]
  float* stats = nullptr;  // [rows, 2]: mean and 1 / sqrt(variance + eps)
};

/// The gradients of AddNorm. The gradient of `branch` is that of x, rounded to `type`.
struct AddNormBackward {
  const void* normed = nullptr;     // gradient of `normed`, [rows, width]
  const float* sum_grad = nullptr;  // gradient of `sum`, [rows, width]; null: 0
  const float* sum = nullptr;       // result of the forward pass
  const float* stats = nullptr;     // result of the forward pass
  const float* weight = nullptr;
  Element type = Element::float32;  // of `normed` and `branch`
  std::int64_t rows = 0;
  std::int64_t width = 0;
  float* x = nullptr;      // gradient of x
  void* branch = nullptr;  // gradient of the branch; null: not computed
  float* parts = nullptr;  // [parts_of(rows), 2, width]: partial sums, for the two that follow
  float* weight_grad = nullptr;  // [width]
  float* bias_grad = nullptr;    // [width]
};

/// Returns the number of partial sums over rows.
constexpr std::int64_t parts_of(std::int64_t rows) { return rows < kMaxParts ? rows : kMaxParts; }

using Quad = Pack<float, kQuad>;

/// Computes the lane's part of sum = x + branch, and keeps it in `values` [width]. Returns its sum.
template <class T>
TRAINCTL_HOST_DEVICE float lane_add(const AddNorm& job, std::int64_t row, float* values, int lane,
                                    int lanes) {
  const std::int64_t start = row * job.width;
  float total = 0;
  for (std::int64_t c = std::int64_t{lane} * kQuad; c < job.width; c += lanes * kQuad) {
    Quad sum = load<kQuad>(job.x + start + c);
    if (job.branch != nullptr) {
      const Quad branch = load<kQuad>(static_cast<const T*>(job.branch) + start + c);
      for (int i = 0; i < kQuad; ++i) sum.values[i] += branch.values[i];
      store<kQuad>(job.sum + start + c, sum);
    }
    store<kQuad>(values + c, sum);
    for (const float value : sum.values) total += value;
  }
  return total;
}

/// Returns the lane's sum of squared deviations from the mean.
TRAINCTL_HOST_DEVICE float lane_squares(const AddNorm& job, const float* values, float mean,
                                        int lane, int lanes) {
  float total = 0;
  for (std::int64_t c = std::int64_t{lane} * kQuad; c < job.width; c += lanes * kQuad) {
    const Quad quad = load<kQuad>(values + c);
    for (const float value : quad.values) total += (value - mean) * (value - mean);
  }
  return total;
}

TRAINCTL_HOST_DEVICE float inverse_deviation(const AddNorm& job, float squares) {
  return 1 / std::sqrt(squares / static_cast<float>(job.width) + job.eps);
}

/// Writes the lane's part of the normalized row.
template <class T>
TRAINCTL_HOST_DEVICE void lane_normalize(const AddNorm& job, std::int64_t row, const float* values,
                                         float mean, float inverse, int lane, int lanes) {
  T* normed = static_cast<T*>(job.normed) + row * job.width;
  for (std::int64_t c = std::int64_t{lane} * kQuad; c < job.width; c += lanes * kQuad) {
    Quad out = load<kQuad>(values + c);
    const Quad weight = load<kQuad>(job.weight + c);
    const Quad bias = load<kQuad>(job.bias + c);
    for (int i = 0; i < kQuad; ++i)
      out.values[i] = (out.values[i] - mean) * inverse * weight.values[i] + bias.values[i];
    store<kQuad>(normed + c, out);
  }
}

/// Sums over a row in the backward pass: of g = gradient * weight, and of g times the normalized
/// value.
struct NormSums {
  float plain;
  float scaled;
};

TRAINCTL_HOST_DEVICE NormSums add(const NormSums& some, const NormSums& others) {
  return {some.plain + others.plain, some.scaled + others.scaled};
}

template <class T>
TRAINCTL_HOST_DEVICE NormSums lane_norm_sums(const AddNormBackward& job, std::int64_t row, int lane,
                                             int lanes) {
  const std::int64_t start = row * job.width;
  const float mean = job.stats[2 * row];
  const float inverse = job.stats[2 * row + 1];
  NormSums sums{0, 0};
  for (std::int64_t c = std::int64_t{lane} * kQuad; c < job.width; c += lanes * kQuad) {
    const Quad gradient = load<kQuad>(static_cast<const T*>(job.normed) + start + c);
    const Quad sum = load<kQuad>(job.sum + start + c);
    const Quad weight = load<kQuad>(job.weight + c);
    for (int i = 0; i < kQuad; ++i) {
      const float g = gradient.values[i] * weight.values[i];
      sums.plain += g;
      sums.scaled += g * (sum.values[i] - mean) * inverse;
    }
  }
  return sums;
}

/// Writes the lane's part of the row's gradients, and adds those of weight and bias to `columns`
/// [2, width], where a lane has its own columns.
template <class T>
TRAINCTL_HOST_DEVICE void lane_norm_gradients(const AddNormBackward& job, std::int64_t row,
                                              const NormSums& sums, float* columns, int lane,
                                              int lanes) {
  const std::int64_t start = row * job.width;
  const float mean = job.stats[2 * row];
  const float inverse = job.stats[2 * row + 1];
  const float plain = sums.plain / static_cast<float>(job.width);
  const float scaled = sums.scaled / static_cast<float>(job.width);
  for (std::int64_t c = std::int64_t{lane} * kQuad; c < job.width; c += lanes * kQuad) {
    const Quad gradient = load<kQuad>(static_cast<const T*>(job.normed) + start + c);
    const Quad sum = load<kQuad>(job.sum + start + c);
    const Quad weight = load<kQuad>(job.weight + c);
    Quad weight_grad = load<kQuad>(columns + c);
    Quad bias_grad = load<kQuad>(columns + job.width + c);
    Quad out{};
    if (job.sum_grad != nullptr) out = load<kQuad>(job.sum_grad + start + c);
    for (int i = 0; i < kQuad; ++i) {
      const float normalized = (sum.values[i] - mean) * inverse;
      const float g = gradient.values[i] * weight.values[i];
      out.values[i] += (g - plain - normalized * scaled) * inverse;
      weight_grad.values[i] += gradient.values[i] * normalized;
      bias_grad.values[i] += gradient.values[i];
    }
    store<kQuad>(job.x + start + c, out);
    if (job.branch != nullptr) store<kQuad>(static_cast<T*>(job.branch) + start + c, out);
    store<kQuad>(columns + c, weight_grad);
    store<kQuad>(columns + job.width + c, bias_grad);
  }
}

/// Returns the bytes of device memory that a launch has to move; the weights are negligible.
inline std::int64_t traffic(const AddNorm& job) {
  const std::int64_t element = job.type == Element::float32 ? 4 : 2;
  const std::int64_t adds = job.branch == nullptr ? 0 : element + 4;
  return job.rows * job.width * (4 + adds + element);
}

inline std::int64_t traffic(const AddNormBackward& job) {
  const std::int64_t element = job.type == Element::float32 ? 4 : 2;
  const std::int64_t sum_grad = job.sum_grad == nullptr ? 0 : 4;
  const std::int64_t branch = job.branch == nullptr ? 0 : element;
  const std::int64_t parts = parts_of(job.rows) * 2 * job.width * 4 * 2;
  return job.rows * job.width * (element + 4 + sum_grad + 4 + branch) + parts;
}

/// Do the work of the kernels on a CPU.
void add_norm_on_host(const AddNorm& job);
void add_norm_backward_on_host(const AddNormBackward& job);

}  // namespace trainctl::device
