#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace trainctl::stage {

/// Tensors, and what they held before a step. The copies are made once and used again.
class KeptTensors {
 public:
  /// They stay the caller's: what they hold changes, they do not.
  explicit KeptTensors(const std::vector<at::Tensor>& tensors);

  /// Copies what they hold now.
  void take();
  /// Puts it back, bit for bit, where `bad` (bool, 0-d, on their device) is true. A GPU does not
  /// wait, and a recorded step may hold both calls.
  void put_back_where(const at::Tensor& bad);

 private:
  /// Lists of one type are what the foreach kernels take in one go.
  struct OfOneType {
    std::vector<at::Tensor> live, copies;
  };
  std::vector<OfOneType> types_;
};

}  // namespace trainctl::stage
