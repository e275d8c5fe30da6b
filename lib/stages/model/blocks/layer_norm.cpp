#include "stages/model/blocks/layer_norm.hpp"

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

namespace trainctl::stages {

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias, eps);
}

at::Tensor LayerNorm::over_channels(const at::Tensor& x_nchw) const {
  return (*this)(x_nchw.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
}

LayerNorm make_layer_norm(const Scope& scope, at::IntArrayRef shape, double eps) {
  LayerNorm layer;
  layer.weight = scope.parameter("weight", at::ones(shape, at::kFloat));
  layer.bias = scope.parameter("bias", at::zeros(shape, at::kFloat));
  layer.eps = eps;
  return layer;
}

}  // namespace trainctl::stages
