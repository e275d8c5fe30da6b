#include "stages/model/blocks/layers.hpp"

#include "base/error.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/embedding.h>
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

at::Tensor Linear::operator()(const at::Tensor& x) const {
  return at::linear(x, weight_quantize(weight), bias);
}

at::Tensor Conv2d::operator()(const at::Tensor& x_nchw) const {
  return convolve(x_nchw, weight_quantize(weight), bias);
}

at::Tensor Conv2d::convolve(const at::Tensor& x_nchw, const at::Tensor& other_weight,
                            const at::Tensor& other_bias) const {
  const std::array<std::int64_t, 2> strides{stride, stride};
  const std::array<std::int64_t, 2> pads{padding, padding};
  const std::array<std::int64_t, 2> dilations{dilation, dilation};
  return at::conv2d(x_nchw, other_weight, other_bias, strides, pads, dilations, groups);
}

at::Tensor draw_weight(at::IntArrayRef shape) {
  double fan_in = 1;
  for (const std::int64_t size : shape.slice(1)) fan_in *= static_cast<double>(size);
  // Follows the arithmetic of torch.nn.init step by step, so that a seed gives bit-identical
  // weights.
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
         "the input has no shape, but must be an image (C x H x W) or a row of numbers");
  ENSURE(config, context.outputs > 0,
         "the model must have at least one output, but the data has no classes or targets");
  return features;
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
  layer.weight_quantize = make_weight_quantize(scope, out);
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
  layer.weight_quantize = make_weight_quantize(scope, shape.out);
  return layer;
}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias, eps);
}

at::Tensor LayerNorm::normalize_channels(const at::Tensor& x_nchw) const {
  return (*this)(x_nchw.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
}

LayerNorm make_layer_norm(const Scope& scope, at::IntArrayRef shape, double eps, Bias bias) {
  LayerNorm layer;
  layer.weight = scope.parameter("weight", at::ones(shape, at::kFloat));
  if (bias == Bias::with) layer.bias = scope.parameter("bias", at::zeros(shape, at::kFloat));
  layer.eps = eps;
  return layer;
}

at::Tensor embed_tied(const at::Tensor& weight, const at::Tensor& tokens) {
  const bool adds_rows = weight.is_cpu();
  return at::embedding(weight, tokens, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false,
                       /*sparse=*/adds_rows);
}

spec::ModelInput model_input(const stage::ModelContext& context) {
  return {context.kind, context.input_shape, context.outputs, context.output_shape};
}

void throw_first(const std::vector<spec::Refusal>& refusals) {
  if (refusals.empty()) return;
  throw Error(ErrorKind::config, refusals[0].message + "\nhint: " + refusals[0].hint);
}

void check_shape(const stage::ModelContext& context) {
  checked_features(context);
  const bool images = context.kind.inputs == spec::Inputs::images;
  ENSURE(config, !images || context.input_shape.size() == 3,
         "the input has the shape {}, but the model needs images of the shape C x H x W",
         fmt::join(context.input_shape, "x"));
}

std::int64_t checked_channels(const stage::ModelContext& context,
                              const std::vector<spec::Refusal>& refusals) {
  checked_features(context);
  const auto inputs = static_cast<std::size_t>(context.kind.inputs);
  ENSURE(config, context.kind.inputs == spec::Inputs::images && context.input_shape.size() == 3,
         "the input is {} of the shape {}, but the model needs images of the shape C x H x "
         "W\nhint: choose a model for this input, such as mlp for numbers",
         spec::enum_names(context.kind.inputs)[inputs], fmt::join(context.input_shape, "x"));
  throw_first(refusals);
  return context.input_shape.front();
}

namespace {

constexpr std::int64_t kLinear = 2;  // number of dimensions of a weight
constexpr std::int64_t kConvolution = 4;

void draw_convolution(const at::Tensor& weight) {
  const auto fan_out = static_cast<double>(weight.size(0) * weight.size(2) * weight.size(3));
  weight.normal_(0, std::sqrt(2.0) / std::sqrt(fan_out));
}

void draw_linear(const at::Tensor& weight, LinearDraw linear) {
  if (linear == LinearDraw::normal) weight.normal_(0, 0.01);
  if (linear == LinearDraw::uniform) {
    const double bound = 1 / std::sqrt(static_cast<double>(weight.size(0)));
    weight.uniform_(-bound, bound);
  }
}

}  // namespace

void initialize(const std::vector<stage::NamedTensor>& parameters, LinearDraw linear) {
  const at::NoGradGuard guard;
  std::int64_t dimensions = 0;  // of the weight that a bias belongs to
  for (const auto& [name, tensor] : parameters) {
    if (name.ends_with(".weight")) {
      dimensions = tensor.dim();
      if (dimensions == kConvolution) draw_convolution(tensor);
      if (dimensions == kLinear) draw_linear(tensor, linear);
    } else if (dimensions != kLinear || linear != LinearDraw::keep) {
      tensor.zero_();
    }
  }
}

void redraw_xavier_uniform(const at::Tensor& weight) {
  const at::NoGradGuard guard;
  const double std = std::sqrt(2.0 / static_cast<double>(weight.size(1) + weight.size(0)));
  const double bound = std::sqrt(3.0) * std;
  weight.uniform_(-bound, bound);
}

void redraw_trunc_normal(const at::Tensor& tensor, double std) {
  constexpr double kBound = 2;
  const at::NoGradGuard guard;
  const auto below = [&](double x) { return (1 + std::erf(x / std / std::sqrt(2.0))) / 2; };
  tensor.uniform_(2 * below(-kBound) - 1, 2 * below(kBound) - 1);
  tensor.erfinv_().mul_(std * std::sqrt(2.0)).clamp_(-kBound, kBound);
}

void redraw_normal(const at::Tensor& tensor, double std) {
  const at::NoGradGuard guard;
  tensor.normal_(0, std);
}

}  // namespace trainctl::stages
