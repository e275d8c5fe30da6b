#include "stages/model/blocks/layers.hpp"

#include "base/error.hpp"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <utility>

namespace trainctl::stages {

at::Tensor Linear::operator()(const at::Tensor& x) const { return at::linear(x, weight, bias); }

at::Tensor Conv2d::operator()(const at::Tensor& x_nchw) const {
  const std::array<std::int64_t, 2> strides{stride, stride};
  const std::array<std::int64_t, 2> pads{padding, padding};
  const std::array<std::int64_t, 2> dilations{dilation, dilation};
  return at::conv2d(x_nchw, weight, bias, strides, pads, dilations, groups);
}

at::Tensor draw_weight(at::IntArrayRef shape) {
  double fan_in = 1;
  for (const std::int64_t size : shape.slice(1)) fan_in *= static_cast<double>(size);
  // The arithmetic of torch.nn.init, step by step: the same seed gives PyTorch's bits.
  const double gain = std::sqrt(2.0 / (1 + std::pow(std::sqrt(5.0), 2)));
  const double bound = std::sqrt(3.0) * (gain / std::sqrt(fan_in));
  return at::empty(shape, at::kFloat).uniform_(-bound, bound);
}

at::Tensor draw_bias(std::int64_t out, std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return at::empty({out}, at::kFloat).uniform_(-bound, bound);
}

at::Tensor activate(spec::model::Activation activation, at::Tensor x) {
  using spec::model::Activation;
  switch (activation) {
    case Activation::relu: return at::relu_(x);
    case Activation::gelu: return at::gelu(x);
    case Activation::tanh: return at::tanh(x);
    case Activation::sigmoid: return at::sigmoid(x);
  }
  ASSERT(false);
}

std::int64_t checked_features(const stage::ModelContext& context) {
  std::int64_t features = 1;
  for (const std::int64_t size : context.input_shape) {
    ENSURE(config, size > 0, "the input has the shape {}: every size must be above 0",
           fmt::join(context.input_shape, "x"));
    features *= size;
  }
  ENSURE(config, !context.input_shape.empty(),
         "the input has no shape: expected C x H x W of images, or the shape of a row");
  ENSURE(config, context.outputs > 0, "the data asks for {} outputs: expected at least 1",
         context.outputs);
  return features;
}

Linear LayeredModule::add_linear(const std::string& name, std::int64_t in, std::int64_t out,
                                 Bias bias) {
  Linear layer;
  layer.weight = add_parameter(name + ".weight", draw_weight({out, in}));
  if (bias == Bias::with) layer.bias = add_parameter(name + ".bias", draw_bias(out, in));
  return layer;
}

Conv2d LayeredModule::add_conv2d(const std::string& name, std::int64_t in, std::int64_t out,
                                 std::int64_t kernel) {
  Conv2d layer;
  layer.weight = add_parameter(name + ".weight", draw_weight({out, in, kernel, kernel}));
  layer.bias = add_parameter(name + ".bias", draw_bias(out, in * kernel * kernel));
  return layer;
}

Scope Scope::operator/(const std::string& child) const { return {*module_, prefix_ + child + "."}; }

at::Tensor Scope::parameter(const std::string& name, at::Tensor tensor) const {
  return module_->add_parameter(prefix_ + name, std::move(tensor));
}

at::Tensor Scope::buffer(const std::string& name, at::Tensor tensor) const {
  return module_->add_buffer(prefix_ + name, std::move(tensor));
}

Linear make_linear(const Scope& scope, std::int64_t in, std::int64_t out, Bias bias) {
  Linear layer;
  layer.weight = scope.parameter("weight", draw_weight({out, in}));
  if (bias == Bias::with) layer.bias = scope.parameter("bias", draw_bias(out, in));
  return layer;
}

Conv2d make_conv2d(const Scope& scope, const Conv2dShape& shape) {
  ASSERT(shape.in % shape.groups == 0 && shape.out % shape.groups == 0);
  const std::int64_t in = shape.in / shape.groups;
  Conv2d layer;
  layer.stride = shape.stride;
  layer.padding = shape.padding.value_or((shape.kernel - 1) / 2 * shape.dilation);
  layer.dilation = shape.dilation;
  layer.groups = shape.groups;
  layer.weight =
      scope.parameter("weight", draw_weight({shape.out, in, shape.kernel, shape.kernel}));
  if (shape.bias == Bias::with) {
    layer.bias = scope.parameter("bias", draw_bias(shape.out, in * shape.kernel * shape.kernel));
  }
  return layer;
}

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
