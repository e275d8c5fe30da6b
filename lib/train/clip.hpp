#pragma once

#include "spec/experiment.hpp"

#include <ATen/core/Tensor.h>

namespace trainctl::train {

/// Length of the vector that all of them make: 0-d, on their device.
at::Tensor norm_of(at::TensorList tensors);

/// Bounds gradients, as torch.nn.utils.clip_grad_norm_ and clip_grad_value_
/// do. Never waits for the device.
class Clipper {
 public:
  Clipper(double bound, spec::ClipAlgorithm algorithm);
  void operator()(at::TensorList gradients) const;

 private:
  double bound_;
  spec::ClipAlgorithm algorithm_;
};

}  // namespace trainctl::train
