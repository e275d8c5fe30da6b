#pragma once

#include "stages/model/blocks/conv_blocks.hpp"

#include <optional>

namespace trainctl::stages {

struct DepthwiseSeparablePlan {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  Nonlinearity after_depthwise = Nonlinearity::relu;
  Nonlinearity after_pointwise = Nonlinearity::relu;
  NormOptions norm = {};
};

/// Below `depthwise` lie "0" and "1"; the other two are named by themselves.
struct DepthwiseSeparableNames {
  Scope depthwise;
  Scope pointwise_conv;
  Scope pointwise_norm;
};

/// A depthwise separable convolution (Howard et al. 2017, MobileNet): one kernel a channel, then a
/// 1x1 convolution that mixes the channels, each with its normalisation.
struct DepthwiseSeparable {
  ConvNorm depthwise;
  ConvNorm pointwise;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

DepthwiseSeparable make_depthwise_separable(const DepthwiseSeparableNames& names,
                                            const DepthwiseSeparablePlan& plan);

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
