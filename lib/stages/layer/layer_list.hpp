#pragma once

#include "stage/registry.hpp"

#include <memory>
#include <string>
#include <vector>

namespace trainctl::stages {

/// The layers of a sequential model, or of a branch of it, each fed with the output of the one
/// before it. The parameters of the fourth are called 3.weight, 3.bias.
class LayerList {
 public:
  /// The shapes fit: they were followed from layer to layer before.
  LayerList(const std::vector<config::Stage>& layers, spec::layer::LayerInput input);

  [[nodiscard]] at::Tensor operator()(at::Tensor x) const;
  [[nodiscard]] std::vector<stage::NamedTensor> parameters(const std::string& prefix = "") const;
  [[nodiscard]] std::vector<stage::NamedTensor> buffers(const std::string& prefix = "") const;
  void set_mode(stage::RunMode mode);
  void to(at::Device device);

 private:
  std::vector<std::unique_ptr<stage::Model>> layers_;
};

}  // namespace trainctl::stages
