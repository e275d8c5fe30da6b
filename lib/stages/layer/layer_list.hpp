#pragma once

#include "stage/registry.hpp"

#include <memory>
#include <string>
#include <vector>

namespace trainctl::stages {

/// A sequential model or a branch of one, like nn.Sequential. The parameters of the fourth layer
/// are called 3.weight, 3.bias.
class LayerList final : public stage::Model {
 public:
  /// The shapes of consecutive layers must fit; the caller has checked them.
  LayerList(const std::vector<config::Stage>& layers, spec::layer::LayerInput input);

  at::Tensor forward(const at::Tensor& inputs) override;
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override;
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override;
  void set_mode(stage::RunMode mode) override;
  void to(at::Device device) override;

 private:
  std::vector<std::unique_ptr<stage::Model>> layers_;
};

}  // namespace trainctl::stages
