#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace trainctl::train {

/// The model's buffers as they were before a step. The forward pass writes running statistics, so
/// that a step which is left out has left its mark by then: NaN would stay in them for good.
class KeptBuffers {
 public:
  explicit KeptBuffers(const stage::Model& model);

  /// Before the first forward pass of the step.
  void take();
  /// Puts them back where `found_inf` (float32 [1], on their device) is not 0. A GPU does not wait.
  void put_back_if(const at::Tensor& found_inf);

 private:
  std::vector<at::Tensor> floats_, float_copies_;
  std::vector<at::Tensor> others_, other_copies_;
};

}  // namespace trainctl::train
