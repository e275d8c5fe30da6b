#pragma once

#include "stages/model/blocks/batch_norm.hpp"
#include "stages/model/blocks/conv2d.hpp"
#include "stages/model/blocks/nonlinearity.hpp"

namespace trainctl::stages {

struct ConvNormPlan {
  Conv2dShape conv;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  NormOptions norm = {};
};

/// A convolution, its batch normalisation and what follows: torchvision's Conv2dNormActivation.
struct ConvNorm {
  Conv2d conv;
  BatchNorm2d norm;
  Nonlinearity nonlinearity = Nonlinearity::none;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

/// Convolution and normalisation lie in scopes of their own, as "conv1" and "bn1".
ConvNorm make_conv_norm(const Scope& conv, const Scope& norm, const ConvNormPlan& plan);
/// As a Sequential of torchvision: "0" and "1".
ConvNorm make_conv_norm(const Scope& scope, const ConvNormPlan& plan);

}  // namespace trainctl::stages
