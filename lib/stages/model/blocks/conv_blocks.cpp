#include "stages/model/blocks/conv_blocks.hpp"

#include "base/error.hpp"
#include "stages/model/blocks/fused_batch_norm.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/relu6.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include <array>
#include <utility>
#include <vector>

namespace trainctl::stages {

at::Tensor apply(Nonlinearity nonlinearity, at::Tensor x) {
  // The gradients of hardswish and silu need x, so autograd would copy it before an in-place call.
  const bool needs_x = at::GradMode::is_enabled();
  switch (nonlinearity) {
    case Nonlinearity::none: return x;
    case Nonlinearity::relu: return at::relu_(x);
    case Nonlinearity::relu6: return at::relu6_(x);
    case Nonlinearity::hardswish: return needs_x ? at::hardswish(x) : at::hardswish_(x);
    case Nonlinearity::silu: return needs_x ? at::silu(x) : at::silu_(x);
  }
  ASSERT(false);
}

at::Tensor convolve_for_int8(const Conv2d& conv, const BatchNorm2d& norm, const at::Tensor& x_nchw,
                             stage::RunMode mode) {
  const at::Tensor factor = norm.weight / (norm.running_var + norm.options.eps).sqrt();
  const at::Tensor weight = conv.weight_quantize(conv.weight * factor.view({-1, 1, 1, 1}));
  if (!norm.trains(mode)) {
    const at::Tensor mean = conv.bias.defined() ? norm.running_mean - conv.bias : norm.running_mean;
    return conv.convolve(x_nchw, weight, norm.bias - mean * factor);
  }
  const at::Tensor plain = conv.convolve(x_nchw, weight, {}) / factor.view({1, -1, 1, 1});
  return norm(conv.bias.defined() ? plain + conv.bias.view({1, -1, 1, 1}) : plain, mode);
}

at::Tensor ConvNorm::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  if (output_quantize.is_on()) {
    at::Tensor y = convolve_for_int8(conv, norm, x_nchw, mode);
    if (nonlinearity == Nonlinearity::hardswish)
      return activation_quantize(at::hardswish(output_quantize(y)));
    return output_quantize(apply(nonlinearity, std::move(y)));
  }
  const at::Tensor x = conv(x_nchw);
  if (nonlinearity == Nonlinearity::relu) return batch_norm_relu(norm, x, mode);
  return apply(nonlinearity, batch_norm(norm, x, mode));
}

ConvNorm make_conv_norm(const Scope& conv, const Scope& norm, const ConvNormPlan& plan) {
  ConvNorm block;
  block.conv = make_conv2d(conv, plan.conv);
  block.norm = make_batch_norm2d(norm, plan.conv.out, plan.norm);
  block.nonlinearity = plan.nonlinearity;
  block.output_quantize = make_activation_quantize(norm);
  if (plan.nonlinearity == Nonlinearity::hardswish)
    block.activation_quantize = make_activation_quantize(norm / "hardswish");
  return block;
}

ConvNorm make_conv_norm(const Scope& scope, const ConvNormPlan& plan) {
  return make_conv_norm(scope / 0, scope / 1, plan);
}

at::Tensor ConvTranspose2d::operator()(const at::Tensor& x_nchw) const {
  const std::array<std::int64_t, 2> strides{stride, stride};
  const std::array<std::int64_t, 2> pads{padding, padding};
  return at::conv_transpose2d(x_nchw, weight, bias, strides, pads, output_padding);
}

ConvTranspose2d make_conv_transpose2d(const Scope& scope, const Conv2dShape& shape) {
  ConvTranspose2d layer;
  layer.stride = shape.stride;
  layer.padding = shape.padding.value_or(0);
  layer.weight =
      scope.parameter("weight", draw_weight({shape.in, shape.out, shape.kernel, shape.kernel}));
  if (shape.bias == Bias::without) return layer;
  // As in torch, the fan-in is that of the convolution whose gradient this is.
  layer.bias =
      scope.parameter("bias", draw_bias(shape.out, shape.out * shape.kernel * shape.kernel));
  return layer;
}

at::Tensor SqueezeExcitation::operator()(at::Tensor x_nchw) const {
  constexpr std::array<std::int64_t, 2> kSpace{2, 3};
  const at::Tensor means = at::mean(x_nchw, at::IntArrayRef(kSpace), /*keepdim=*/true);
  const at::Tensor raw = fc2(apply(nonlinearity, fc1(means)));
  const at::Tensor scale = gate == Gate::sigmoid ? at::sigmoid(raw) : at::hardsigmoid(raw);
  return output_quantize(at::GradMode::is_enabled() ? x_nchw.mul(scale) : x_nchw.mul_(scale));
}

SqueezeExcitation make_squeeze_excitation(const Scope& scope, const SqueezePlan& plan) {
  SqueezeExcitation block;
  block.fc1 =
      make_conv2d(scope / "fc1", {.in = plan.channels, .out = plan.squeezed, .bias = Bias::with});
  block.fc2 =
      make_conv2d(scope / "fc2", {.in = plan.squeezed, .out = plan.channels, .bias = Bias::with});
  block.nonlinearity = plan.nonlinearity;
  block.gate = plan.gate;
  block.output_quantize = make_activation_quantize(scope);
  return block;
}

at::Tensor global_average(const at::Tensor& x_nchw) {
  constexpr std::array<std::int64_t, 2> kSpace{2, 3};
  return at::mean(x_nchw, at::IntArrayRef(kSpace));
}

at::Tensor stochastic_depth(const at::Tensor& x, double p, bool training) {
  if (!training || p == 0) return x;
  const double survival = 1 - p;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape.front() = x.size(0);
  const at::Tensor noise = at::empty(shape, x.options()).bernoulli_(survival);
  if (survival > 0) noise.div_(survival);
  return x * noise;
}

at::Tensor MbConv::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  at::Tensor out = depthwise(expand ? (*expand)(x_nchw, mode) : x_nchw, mode);
  if (squeeze) out = (*squeeze)(std::move(out));
  out = project(out, mode);
  if (!shortcut) return out;
  return output_quantize(
      stages::stochastic_depth(out, stochastic_depth, mode == stage::RunMode::train).add_(x_nchw));
}

MbConv make_mbconv(const Scope& scope, const MbConvPlan& plan) {
  const Scope inner = scope / "block";
  const auto conv_norm = [&](std::size_t child, const Conv2dShape& shape, Nonlinearity after) {
    return make_conv_norm(inner / child, {.conv = shape, .nonlinearity = after, .norm = plan.norm});
  };
  MbConv block;
  std::size_t next = 0;
  if (plan.expanded != plan.in)
    block.expand = conv_norm(next++, {.in = plan.in, .out = plan.expanded}, plan.nonlinearity);
  block.depthwise = conv_norm(next++,
                              {.in = plan.expanded,
                               .out = plan.expanded,
                               .kernel = plan.kernel,
                               .stride = plan.stride,
                               .groups = plan.expanded},
                              plan.nonlinearity);
  if (plan.squeezed > 0)
    block.squeeze = make_squeeze_excitation(
        inner / next++, {plan.expanded, plan.squeezed, plan.squeeze_nonlinearity, plan.gate});
  block.project = conv_norm(next, {.in = plan.expanded, .out = plan.out}, Nonlinearity::none);
  block.shortcut = plan.stride == 1 && plan.in == plan.out;
  block.stochastic_depth = plan.stochastic_depth;
  if (block.shortcut) block.output_quantize = make_activation_quantize(scope);
  return block;
}

}  // namespace trainctl::stages
