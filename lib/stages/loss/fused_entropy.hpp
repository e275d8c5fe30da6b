#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace trainctl::stages {

/// Whether a GPU's own kernel takes them: float32 logits [N, K], classes int64 [N].
bool fuses_entropy(const at::Tensor& logits, const at::Tensor& classes);

struct FusedEntropy {
  enum class Reduction { sum, mean };  // of all rows, those that are ignored too
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;
  std::optional<std::int64_t> ignored = std::nullopt;  // the class of rows whose loss is 0
};

/// The cross entropy of rows and its gradient, both made in one go; where no kernel is, by its
/// twin for CPUs. A class that is not below K makes it NaN. It has no second derivative. Throws
/// Error(resource) where the GPU refuses.
at::Tensor fused_entropy(const at::Tensor& logits, const at::Tensor& classes,
                         const FusedEntropy& options);

}  // namespace trainctl::stages
