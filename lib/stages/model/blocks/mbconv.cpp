#include "stages/model/blocks/mbconv.hpp"

#include "stages/model/stochastic_depth.hpp"

#include <utility>

namespace trainctl::stages {

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
