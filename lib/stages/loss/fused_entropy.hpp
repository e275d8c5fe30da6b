#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace trainctl::stages {

/// The classes of rows, or a probability for each class.
struct ClassTargets {
  at::Tensor classes = {};   // int64 [N]; undefined with probabilities
  at::Tensor partners = {};  // int64 [N]: the second classes of mixed rows; undefined: not mixed
  at::Tensor lambda = {};    // float32 [N]: shares of the first classes of mixed rows
  at::Tensor probabilities = {};  // float32 [N, K], without gradient
};

/// Returns whether a CUDA kernel supports the arguments: logits [N, K] of float32, bfloat16 or
/// float16, and int64 classes [N] or float32 probabilities [N, K].
bool fuses_entropy(const at::Tensor& logits, const ClassTargets& targets);

/// Options of fused_entropy().
struct FusedEntropy {
  enum class Reduction { none, sum, mean };  // over all rows, including ignored ones
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;
  std::optional<std::int64_t> ignored = std::nullopt;  // rows of this class have loss 0
  at::Tensor weight = {};  // float32 [K]: weights of the classes; undefined: all 1
  double weight_sum = 0;   // of all classes; used only with `weight` and label_smoothing
};

/// Computes the cross entropy of rows in float32, like torch.nn.functional.cross_entropy; of mixed
/// rows lambda L(class) + (1 - lambda) L(partner). Probabilities have no ignored rows. Also
/// computes the gradient in this pass if stage::loss_gradient() is known, else in the backward
/// pass. On a CPU with an equivalent implementation. A class of K or more makes the loss NaN. Has
/// no second derivative. Without a reduction, returns [N] without gradient. Throws Error(resource)
/// if a kernel launch fails.
at::Tensor fused_entropy(const at::Tensor& logits, const ClassTargets& targets,
                         const FusedEntropy& options);

}  // namespace trainctl::stages
