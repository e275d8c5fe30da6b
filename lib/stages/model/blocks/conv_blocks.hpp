#pragma once

#include "stages/model/blocks/batch_norm.hpp"
#include "stages/model/blocks/layers.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace trainctl::stages {

/// The activation after a normalization in convolutional networks.
enum class Nonlinearity { none, relu, relu6, hardswish, silu };

/// Overwrites x if that saves memory; the caller must not use x afterward.
at::Tensor apply(Nonlinearity nonlinearity, at::Tensor x);

struct ConvNormPlan {
  Conv2dShape conv;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  NormOptions norm = {};
};

/// torchvision's Conv2dNormActivation: a convolution, its batch normalization and an activation.
struct ConvNorm {
  Conv2d conv;
  BatchNorm2d norm;
  Nonlinearity nonlinearity = Nonlinearity::none;
  FakeQuantize output_quantize = {};
  FakeQuantize activation_quantize = {};  // after hardswish

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

/// Computes both in training for int8: the weight is rounded after it was multiplied by the scale
/// of the running averages, as in an int8 model, which contains no batch norm (Krishnamoorthi
/// 2018). Training then undoes the scale, and normalizes by the statistics of the batch.
at::Tensor convolve_for_int8(const Conv2d& conv, const BatchNorm2d& norm, const at::Tensor& x_nchw,
                             stage::RunMode mode);

/// Creates convolution and normalization in separate scopes such as "conv1" and "bn1".
ConvNorm make_conv_norm(const Scope& conv, const Scope& norm, const ConvNormPlan& plan);
/// Creates them as "0" and "1" like torchvision's Sequential.
ConvNorm make_conv_norm(const Scope& scope, const ConvNormPlan& plan);

/// nn.ConvTranspose2d with a square kernel and without groups.
struct ConvTranspose2d {
  at::Tensor weight;  // [in, out, kernel, kernel]
  at::Tensor bias;    // [out], undefined without bias
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::array<std::int64_t, 2> output_padding = {0, 0};

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw) const;
};

/// Creates a layer initialized like nn.ConvTranspose2d, with the kernel, stride and padding of
/// `shape` (padding: 0 if it has none).
ConvTranspose2d make_conv_transpose2d(const Scope& scope, const Conv2dShape& shape);

enum class Gate { sigmoid, hardsigmoid };

struct SqueezePlan {
  std::int64_t channels = 0;
  std::int64_t squeezed = 0;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  Gate gate = Gate::sigmoid;
};

/// Squeeze-and-excitation (Hu et al. 2017): scales each channel by a gate that two 1x1 convolutions
/// compute from the channel means. The names follow torchvision and timm: "fc1", "fc2".
struct SqueezeExcitation {
  Conv2d fc1;
  Conv2d fc2;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  Gate gate = Gate::sigmoid;
  FakeQuantize output_quantize = {};

  /// Scales x in place outside of training; the caller must not use x afterward.
  [[nodiscard]] at::Tensor operator()(at::Tensor x_nchw) const;
};

SqueezeExcitation make_squeeze_excitation(const Scope& scope, const SqueezePlan& plan);

/// Returns the mean of each channel, [N, C], like AdaptiveAvgPool2d(1) and flatten.
at::Tensor global_average(const at::Tensor& x_nchw);

/// Rounds a scaled number of channels to a multiple of 8 like torchvision's _make_divisible: the
/// result is never more than a tenth below `channels`.
inline std::int64_t divisible_channels(double channels) {
  constexpr std::int64_t kDivisor = 8;
  const auto rounded = static_cast<std::int64_t>(channels + kDivisor / 2.0) / kDivisor * kDivisor;
  const std::int64_t result = std::max(kDivisor, rounded);
  return static_cast<double>(result) < 0.9 * channels ? result + kDivisor : result;
}

/// Drops whole samples of a residual branch with probability `p` in [0, 1] and scales the others by
/// 1/(1-p), like torchvision's StochasticDepth in mode "row" (Huang et al. 2016). Draws from the
/// generator of x's device. Returns x itself outside of training and for p = 0.
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

/// The mobile block: MBConv of EfficientNet (Tan & Le 2019) and, with other nonlinearities and
/// without squeeze-and-excitation, the inverted residuals of MobileNet (Sandler et al. 2018, Howard
/// et al. 2019).
struct MbConv {
  std::optional<ConvNorm> expand;
  ConvNorm depthwise;
  std::optional<SqueezeExcitation> squeeze;
  ConvNorm project;
  bool shortcut = false;
  double stochastic_depth = 0;
  FakeQuantize output_quantize = {};  // of the sum

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;
};

/// Creates the block with torchvision's names below "block".
MbConv make_mbconv(const Scope& scope, const MbConvPlan& plan);

}  // namespace trainctl::stages
