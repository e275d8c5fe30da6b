#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace trainctl::train {

/// Tensors side by side in flat copies, so that an exchange takes few calls. Each copy holds
/// tensors of one type and device, in their order, up to `cap_bytes`, or one that is larger.
class FlatTensors {
 public:
  /// The tensors stay the caller's; the copies are made once and used again.
  FlatTensors(const std::vector<at::Tensor>& tensors, std::size_t cap_bytes);

  [[nodiscard]] std::size_t size() const { return parts_.size(); }
  [[nodiscard]] const at::Tensor& flat(std::size_t part) const { return parts_[part].flat; }
  /// From the tensors into their copy, and back.
  void gather(std::size_t part) const;
  void scatter(std::size_t part) const;

 private:
  struct Part {
    at::Tensor flat;
    std::vector<at::Tensor> tensors;
    std::vector<at::Tensor> views;  // of the flat copy, one for each
  };
  std::vector<Part> parts_;
};

}  // namespace trainctl::train
