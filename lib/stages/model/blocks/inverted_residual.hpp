#pragma once

#include "stages/model/blocks/depthwise_separable.hpp"

#include <optional>

namespace trainctl::stages {

struct InvertedResidualPlan {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t stride = 1;
  std::int64_t expand_ratio = 1;
};

/// The block of MobileNetV2 (Sandler et al. 2018): expansion, depthwise convolution and linear
/// bottleneck, with a shortcut where the shape stays. The names are torchvision's, below "conv".
struct InvertedResidual {
  std::optional<ConvNorm> expand;
  DepthwiseSeparable separable;
  bool shortcut = false;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

InvertedResidual make_inverted_residual(const Scope& scope, const InvertedResidualPlan& plan);

}  // namespace trainctl::stages
