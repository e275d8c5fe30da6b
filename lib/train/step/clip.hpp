#pragma once

#include "spec/experiment/experiment.hpp"

#include <ATen/core/Tensor.h>

namespace trainctl::train {

/// Length of the vector that all of them make: 0-d, on their device, float32 or float64. Finite
/// where they are.
at::Tensor norm_of(at::TensorList tensors);

/// Bounds gradients, as torch.nn.utils.clip_grad_norm_ and clip_grad_value_
/// do. Never waits for the device.
class Clipper {
 public:
  Clipper(double bound, spec::ClipAlgorithm algorithm);
  /// Returns the norm before clipping, 0-d and on the device; undefined where it took none.
  at::Tensor operator()(at::TensorList gradients) const;
  [[nodiscard]] bool takes_norm() const { return algorithm_ == spec::ClipAlgorithm::norm; }

 private:
  double bound_;
  spec::ClipAlgorithm algorithm_;
};

}  // namespace trainctl::train
