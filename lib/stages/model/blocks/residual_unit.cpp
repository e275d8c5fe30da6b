#include "stages/model/blocks/residual_unit.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/relu.h>

#include <array>
#include <limits>
#include <utility>

namespace trainctl::stages {
namespace {

/// conv1 and bn1, conv2 and bn2, ...
void add_conv(ResidualUnit& unit, const Scope& scope, const Conv2dShape& shape,
              Nonlinearity nonlinearity) {
  const std::string number = std::to_string(unit.convs.size() + 1);
  unit.convs.push_back(make_conv_norm(scope / ("conv" + number), scope / ("bn" + number),
                                      {.conv = shape, .nonlinearity = nonlinearity}));
}

Shortcut make_shortcut(const Scope& scope, const ResidualPlan& plan, std::int64_t out) {
  Shortcut shortcut;
  if (plan.stride == 1 && plan.in == out) return shortcut;
  if (plan.projection == Projection::padding) {
    shortcut.stride = plan.stride;
    shortcut.padding = (out - plan.in) / 2;
  } else {
    shortcut.projection = make_conv_norm(
        scope / "downsample", {.conv = {.in = plan.in, .out = out, .stride = plan.stride},
                               .nonlinearity = Nonlinearity::none});
  }
  return shortcut;
}

/// What both kinds have behind their convolutions.
ResidualUnit finish(ResidualUnit unit, const Scope& scope, const ResidualPlan& plan,
                    std::int64_t out) {
  if (plan.last_norm == LastNorm::zeros) {
    const at::NoGradGuard guard;
    unit.convs.back().norm.weight.zero_();
  }
  if (plan.squeeze_ratio > 0)
    unit.squeeze = make_squeeze_excitation(scope / "se",
                                           {.channels = out, .squeezed = out / plan.squeeze_ratio});
  unit.shortcut = make_shortcut(scope, plan, out);
  return unit;
}

}  // namespace

at::Tensor Shortcut::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  if (projection) return (*projection)(x_nchw, mode);
  if (stride == 1 && padding == 0) return x_nchw;
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const at::Tensor pixels = x_nchw.slice(2, 0, kEnd, stride).slice(3, 0, kEnd, stride);
  const std::array<std::int64_t, 6> pads{0, 0, 0, 0, padding, padding};  // the last dimension first
  return at::constant_pad_nd(pixels, pads);
}

at::Tensor ResidualUnit::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  at::Tensor out = x_nchw;
  for (const ConvNorm& conv : convs) out = conv(out, mode);
  if (squeeze) out = (*squeeze)(std::move(out));
  out.add_(shortcut(x_nchw, mode));
  return at::relu_(out);
}

ResidualUnit make_basic_block(const Scope& scope, const ResidualPlan& plan) {
  ResidualUnit unit;
  add_conv(unit, scope, {.in = plan.in, .out = plan.width, .kernel = 3, .stride = plan.stride},
           Nonlinearity::relu);
  add_conv(unit, scope, {.in = plan.width, .out = plan.width, .kernel = 3}, Nonlinearity::none);
  return finish(std::move(unit), scope, plan, plan.width);
}

ResidualUnit make_bottleneck(const Scope& scope, const ResidualPlan& plan) {
  const std::int64_t out = plan.width * kBottleneckExpansion;
  ResidualUnit unit;
  add_conv(unit, scope, {.in = plan.in, .out = plan.width}, Nonlinearity::relu);
  add_conv(unit, scope, {.in = plan.width, .out = plan.width, .kernel = 3, .stride = plan.stride},
           Nonlinearity::relu);
  add_conv(unit, scope, {.in = plan.width, .out = out}, Nonlinearity::none);
  return finish(std::move(unit), scope, plan, out);
}

}  // namespace trainctl::stages
