#pragma once

#include "stages/model/blocks/conv_norm.hpp"

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

}  // namespace trainctl::stages
