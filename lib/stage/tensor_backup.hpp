#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace trainctl::stage {

/// Backs up tensors before a step and restores them on request. The copies are allocated once and
/// reused.
class KeptTensors {
 public:
  /// Keeps references to `tensors`; the caller still owns them.
  explicit KeptTensors(const std::vector<at::Tensor>& tensors);

  /// Copies the current values.
  void take();
  /// Restores the copied values bit for bit if `bad` (bool, 0-d, on the device of the tensors) is
  /// true. Does not synchronize with a GPU, and a CUDA graph may capture both calls.
  void put_back_where(const at::Tensor& bad);

 private:
  /// Tensors of one dtype, because a foreach kernel takes lists of one dtype.
  struct OfOneType {
    std::vector<at::Tensor> live, copies;
  };
  std::vector<OfOneType> types_;
};

}  // namespace trainctl::stage
