#pragma once

#include "stage/stages.hpp"
#include "stage/tensor_backup.hpp"

#include <ATen/core/Tensor.h>

namespace trainctl::train {

/// The model's buffers as they were before a step. The forward pass writes running statistics, so
/// that a step which is left out has left its mark by then: NaN would stay in them for good.
class KeptBuffers {
 public:
  explicit KeptBuffers(const stage::Model& model);

  /// Before the first forward pass of the step.
  void take() { kept_.take(); }
  /// Puts them back where `found_inf` (float32 [1], on their device) is not 0. A GPU does not wait.
  void put_back_if(const at::Tensor& found_inf);

 private:
  stage::KeptTensors kept_;
};

}  // namespace trainctl::train
