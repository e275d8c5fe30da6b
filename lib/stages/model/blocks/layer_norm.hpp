#pragma once

#include "stages/model/blocks/scope.hpp"

namespace trainctl::stages {

/// nn.LayerNorm (Ba et al. 2016): the last extents of x, those of `weight`, by their mean and
/// deviation.
struct LayerNorm {
  at::Tensor weight;
  at::Tensor bias;
  double eps = 1e-5;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;
  /// The channels of each pixel.
  [[nodiscard]] at::Tensor over_channels(const at::Tensor& x_nchw) const;
};

/// Ones and zeros of that shape.
LayerNorm make_layer_norm(const Scope& scope, at::IntArrayRef shape, double eps = 1e-5);

}  // namespace trainctl::stages
