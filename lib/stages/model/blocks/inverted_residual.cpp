#include "stages/model/blocks/inverted_residual.hpp"

namespace trainctl::stages {

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

}  // namespace trainctl::stages
