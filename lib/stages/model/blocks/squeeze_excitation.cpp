#include "stages/model/blocks/squeeze_excitation.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sigmoid.h>

#include <array>

namespace trainctl::stages {

at::Tensor SqueezeExcitation::operator()(at::Tensor x_nchw) const {
  constexpr std::array<std::int64_t, 2> kSpace{2, 3};
  const at::Tensor means = at::mean(x_nchw, at::IntArrayRef(kSpace), /*keepdim=*/true);
  const at::Tensor raw = fc2(apply(nonlinearity, fc1(means)));
  const at::Tensor scale = gate == Gate::sigmoid ? at::sigmoid(raw) : at::hardsigmoid(raw);
  return at::GradMode::is_enabled() ? x_nchw.mul(scale) : x_nchw.mul_(scale);
}

SqueezeExcitation make_squeeze_excitation(const Scope& scope, const SqueezePlan& plan) {
  SqueezeExcitation block;
  block.fc1 =
      make_conv2d(scope / "fc1", {.in = plan.channels, .out = plan.squeezed, .bias = Bias::with});
  block.fc2 =
      make_conv2d(scope / "fc2", {.in = plan.squeezed, .out = plan.channels, .bias = Bias::with});
  block.nonlinearity = plan.nonlinearity;
  block.gate = plan.gate;
  return block;
}

}  // namespace trainctl::stages
