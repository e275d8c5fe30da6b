#pragma once

#include "device/row_math.hpp"

// The CUDA compiler reads this file, too: C++17 and plain types only.

namespace trainctl::device {

/// The rows that a block processes at a time.
constexpr int kGeluRows = 8;

/// GELU of x + bias, like torch.nn.functional.gelu, or its gradients. The width is a multiple of 8,
/// and all pointers are aligned to kPackBytes.
struct BiasGelu {
  const void* x = nullptr;          // [rows, width]
  Element type = Element::float32;  // of x, `out` and `gradient`
  const float* bias = nullptr;      // [width]
  std::int64_t rows = 0;
  std::int64_t width = 0;
  bool tanh = false;               // the approximation by tanh; false: by erf
  const void* gradient = nullptr;  // of the result; null: computes the result
  void* out = nullptr;             // [rows, width]: the result, or the gradient of x
  float* parts = nullptr;          // [gelu_parts(width, rows), width]: partial sums of `bias_grad`
  float* bias_grad = nullptr;      // [width]
};

/// Returns the number of partial sums over rows, which is also the number of blocks with the same
/// columns. It does not depend on the GPU, so that all GPUs add in the same order.
constexpr std::int64_t gelu_parts(std::int64_t width, std::int64_t rows) {
  constexpr std::int64_t kBlocks = 1024;
  constexpr std::int64_t kTile = std::int64_t{kWarp} * 8;  // columns of a block in 16 bits
  const std::int64_t most = (rows + kGeluRows - 1) / kGeluRows;
  const std::int64_t wanted = kBlocks * kTile / width + 1;
  return wanted < most ? wanted : most;
}

constexpr float kGeluSlope = 0.7978845608028654F;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715F;
constexpr float kInverseSqrt2 = 0.7071067811865476F;
constexpr float kInverseSqrt2Pi = 0.3989422804014327F;

TRAINCTL_HOST_DEVICE float sigmoid(float x) { return 1 / (1 + exponential(-x)); }

/// Hendrycks & Gimpel 2016: x sigmoid(2 u) is x (1 + tanh(u)) / 2.
template <bool kTanh>
TRAINCTL_HOST_DEVICE float gelu(float x) {
  if constexpr (!kTanh) return 0.5F * x * (1 + std::erf(x * kInverseSqrt2));
  return x * sigmoid(2 * kGeluSlope * (x + kGeluCube * x * x * x));
}

/// Returns the derivative of gelu().
template <bool kTanh>
TRAINCTL_HOST_DEVICE float gelu_derivative(float x) {
  if constexpr (!kTanh) {
    const float density = exponential(-0.5F * x * x) * kInverseSqrt2Pi;
    return 0.5F * (1 + std::erf(x * kInverseSqrt2)) + x * density;
  }
  const float gate = sigmoid(2 * kGeluSlope * (x + kGeluCube * x * x * x));
  const float inner = 2 * kGeluSlope * (1 + 3 * kGeluCube * x * x);
  return gate + x * gate * (1 - gate) * inner;
}

/// Computes the pack of columns that starts at `column`, in every `step`-th row from `first`.
template <bool kTanh, class T>
TRAINCTL_HOST_DEVICE void gelu_columns(const BiasGelu& job, std::int64_t column, std::int64_t first,
                                       std::int64_t step) {
  constexpr int kCount = kPackOf<T>;
  const Pack<float, kCount> bias = load<kCount>(job.bias + column);
  for (std::int64_t row = first; row < job.rows; row += step) {
    const std::int64_t start = row * job.width + column;
    Pack<float, kCount> all = load<kCount>(static_cast<const T*>(job.x) + start);
    for (int i = 0; i < kCount; ++i) all.values[i] = gelu<kTanh>(all.values[i] + bias.values[i]);
    store<kCount>(static_cast<T*>(job.out) + start, all);
  }
}

/// Computes the gradients of x in the same way, and returns their sums.
template <bool kTanh, class T>
TRAINCTL_HOST_DEVICE Pack<float, kPackOf<T>> gelu_gradients(const BiasGelu& job,
                                                            std::int64_t column, std::int64_t first,
                                                            std::int64_t step) {
  constexpr int kCount = kPackOf<T>;
  const Pack<float, kCount> bias = load<kCount>(job.bias + column);
  Pack<float, kCount> sums{};
  for (std::int64_t row = first; row < job.rows; row += step) {
    const std::int64_t start = row * job.width + column;
    Pack<float, kCount> all = load<kCount>(static_cast<const T*>(job.x) + start);
    const Pack<float, kCount> gradient = load<kCount>(static_cast<const T*>(job.gradient) + start);
    for (int i = 0; i < kCount; ++i) {
      const float x = all.values[i] + bias.values[i];
      all.values[i] = gelu_derivative<kTanh>(x) * gradient.values[i];
      sums.values[i] += all.values[i];
    }
    store<kCount>(static_cast<T*>(job.out) + start, all);
  }
  return sums;
}

/// Returns the bytes of device memory that a launch has to move.
inline std::int64_t traffic(const BiasGelu& job) {
  const std::int64_t element = job.type == Element::float32 ? 4 : 2;
  const std::int64_t numbers = job.rows * job.width * element;
  if (job.gradient == nullptr) return 2 * numbers;
  return 3 * numbers + gelu_parts(job.width, job.rows) * job.width * 4 * 2;
}

/// Does the work of the kernel on a CPU.
void bias_gelu_on_host(const BiasGelu& job);

}  // namespace trainctl::device
