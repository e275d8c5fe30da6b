#pragma once

#include "stages/model/blocks/batch_norm.hpp"
#include "stages/model/blocks/layers.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace trainctl::stages {

/// What follows a normalization in the convolutional networks.
enum class Nonlinearity { none, relu, relu6, hardswish, silu };

/// The caller gives x away: it is overwritten where that saves memory.
at::Tensor apply(Nonlinearity nonlinearity, at::Tensor x);

struct ConvNormPlan {
  Conv2dShape conv;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  NormOptions norm = {};
};

/// A convolution, its batch normalization and what follows: torchvision's Conv2dNormActivation.
struct ConvNorm {
  Conv2d conv;
  BatchNorm2d norm;
  Nonlinearity nonlinearity = Nonlinearity::none;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

/// Convolution and normalization lie in scopes of their own, as "conv1" and "bn1".
ConvNorm make_conv_norm(const Scope& conv, const Scope& norm, const ConvNormPlan& plan);
/// As a Sequential of torchvision: "0" and "1".
ConvNorm make_conv_norm(const Scope& scope, const ConvNormPlan& plan);

enum class Gate { sigmoid, hardsigmoid };

struct SqueezePlan {
  std::int64_t channels = 0;
  std::int64_t squeezed = 0;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  Gate gate = Gate::sigmoid;
};

/// Squeeze-and-excitation (Hu et al. 2017): scales each channel by a gate that two 1x1 convolutions
/// make from the means of all channels. The names are torchvision's and timm's: "fc1", "fc2".
struct SqueezeExcitation {
  Conv2d fc1;
  Conv2d fc2;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  Gate gate = Gate::sigmoid;

  /// The caller gives x away: outside training it is scaled in place.
  [[nodiscard]] at::Tensor operator()(at::Tensor x_nchw) const;
};

SqueezeExcitation make_squeeze_excitation(const Scope& scope, const SqueezePlan& plan);

/// The mean of each channel, [N, C]: what AdaptiveAvgPool2d(1) and flatten give.
at::Tensor global_average(const at::Tensor& x_nchw);

/// A number of channels scaled by a width, rounded to a multiple of 8 as torchvision does: never
/// more than a tenth below what was asked.
inline std::int64_t divisible_channels(double channels) {
  constexpr std::int64_t kDivisor = 8;
  const auto rounded = static_cast<std::int64_t>(channels + kDivisor / 2.0) / kDivisor * kDivisor;
  const std::int64_t result = std::max(kDivisor, rounded);
  return static_cast<double>(result) < 0.9 * channels ? result + kDivisor : result;
}

/// Drops whole samples of a residual branch with probability `p` and scales those that survive by
/// 1/(1-p): torchvision's StochasticDepth in mode "row" (Huang et al. 2016), drawn from the
/// generator of x's device. Outside training, and at p = 0, it gives x itself. `p` is in [0, 1].
at::Tensor stochastic_depth(const at::Tensor& x, double p, bool training);

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

/// The mobile block: MBConv of EfficientNet (Tan & Le 2019), and, with other nonlinearities and
/// without squeeze-and-excitation, the inverted residuals of MobileNet (Sandler et al. 2018, Howard
/// et al. 2019).
struct MbConv {
  std::optional<ConvNorm> expand;
  ConvNorm depthwise;
  std::optional<SqueezeExcitation> squeeze;
  ConvNorm project;
  bool shortcut = false;
  double stochastic_depth = 0;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

/// The names are torchvision's, below "block".
MbConv make_mbconv(const Scope& scope, const MbConvPlan& plan);

}  // namespace trainctl::stages
