#include "stages/model/blocks/inverted_residual.hpp"

#include "stages/model/blocks/conv_blocks.hpp"

#include <utility>

namespace trainctl::stages {

at::Tensor DepthwiseSeparable::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  return pointwise(depthwise(x_nchw, mode), mode);
}

DepthwiseSeparable make_depthwise_separable(const DepthwiseSeparableNames& names,
                                            const DepthwiseSeparablePlan& plan) {
  DepthwiseSeparable block;
  block.depthwise = make_conv_norm(names.depthwise, {.conv = {.in = plan.in,
                                                              .out = plan.in,
                                                              .kernel = plan.kernel,
                                                              .stride = plan.stride,
                                                              .groups = plan.in},
                                                     .nonlinearity = plan.after_depthwise,
                                                     .norm = plan.norm});
  block.pointwise = make_conv_norm(names.pointwise_conv, names.pointwise_norm,
                                   {.conv = {.in = plan.in, .out = plan.out},
                                    .nonlinearity = plan.after_pointwise,
                                    .norm = plan.norm});
  return block;
}

at::Tensor InvertedResidual::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  const at::Tensor out = separable(expand ? (*expand)(x_nchw, mode) : x_nchw, mode);
  return shortcut ? out.add_(x_nchw) : out;
}

InvertedResidual make_inverted_residual(const Scope& scope, const InvertedResidualPlan& plan) {
  const Scope conv = scope / "conv";
  const std::int64_t hidden = plan.in * plan.expand_ratio;
  InvertedResidual block;
  std::size_t next = 0;
  if (plan.expand_ratio != 1) {
    block.expand = make_conv_norm(conv / next++, {.conv = {.in = plan.in, .out = hidden},
                                                  .nonlinearity = Nonlinearity::relu6});
  }
  block.separable = make_depthwise_separable({conv / next, conv / (next + 1), conv / (next + 2)},
                                             {.in = hidden,
                                              .out = plan.out,
                                              .stride = plan.stride,
                                              .after_depthwise = Nonlinearity::relu6,
                                              .after_pointwise = Nonlinearity::none});
  block.shortcut = plan.stride == 1 && plan.in == plan.out;
  return block;
}

at::Tensor MbConv::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  at::Tensor out = depthwise(expand ? (*expand)(x_nchw, mode) : x_nchw, mode);
  if (squeeze) out = (*squeeze)(std::move(out));
  out = project(out, mode);
  if (!shortcut) return out;
  return stages::stochastic_depth(out, stochastic_depth, mode == stage::RunMode::train)
      .add_(x_nchw);
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
  return block;
}

}  // namespace trainctl::stages
