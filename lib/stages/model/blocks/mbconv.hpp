#pragma once

#include "stages/model/blocks/conv_norm.hpp"
#include "stages/model/blocks/squeeze_excitation.hpp"

#include <optional>

namespace trainctl::stages {

struct MbConvPlan {
  std::int64_t in = 0;
  std::int64_t expanded = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t squeezed = 0;  // channels; 0: without squeeze-and-excitation
  Nonlinearity nonlinearity = Nonlinearity::silu;
  Nonlinearity squeeze_nonlinearity = Nonlinearity::silu;
  Gate gate = Gate::sigmoid;
  NormOptions norm = {};
  double stochastic_depth = 0;  // probability of dropping the block for a sample
};

/// The mobile block with squeeze-and-excitation: MBConv of EfficientNet (Tan & Le 2019), and, with
/// other nonlinearities, the inverted residual of MobileNetV3 (Howard et al. 2019). The names are
/// torchvision's, below "block".
struct MbConv {
  std::optional<ConvNorm> expand;
  ConvNorm depthwise;
  std::optional<SqueezeExcitation> squeeze;
  ConvNorm project;
  bool shortcut = false;
  double stochastic_depth = 0;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

MbConv make_mbconv(const Scope& scope, const MbConvPlan& plan);

}  // namespace trainctl::stages
