#include "stages/model/blocks/depthwise_separable.hpp"

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

}  // namespace trainctl::stages
