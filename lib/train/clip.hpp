#pragma once

#include "spec/experiment.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace trainctl::train {

/// Bounds the gradients of the parameters, as torch.nn.utils.clip_grad_norm_ and clip_grad_value_
/// do. Never waits for the device.
class Clipper {
 public:
  Clipper(std::vector<at::Tensor> parameters, double bound, spec::ClipAlgorithm algorithm);
  void operator()();

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> gradients_;
  double bound_;
  spec::ClipAlgorithm algorithm_;
};

}  // namespace trainctl::train
