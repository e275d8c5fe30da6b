#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace trainctl::stages {

/// Returns whether a CUDA kernel supports the arguments: float32 logits [N, K] and int64 classes
/// [N].
bool fuses_entropy(const at::Tensor& logits, const at::Tensor& classes);

/// Options of fused_entropy().
struct FusedEntropy {
  enum class Reduction { sum, mean };  // over all rows, including ignored ones
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;
  std::optional<std::int64_t> ignored = std::nullopt;  // rows of this class have loss 0
};

/// Computes the cross entropy of rows and its gradient in one pass; on a CPU with an equivalent
/// implementation. A class of K or more makes the loss NaN. Has no second derivative. Throws
/// Error(resource) if the kernel launch fails.
at::Tensor fused_entropy(const at::Tensor& logits, const at::Tensor& classes,
                         const FusedEntropy& options);

}  // namespace trainctl::stages
