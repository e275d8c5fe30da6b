#include "stages/model/blocks/conv_norm.hpp"

namespace trainctl::stages {

at::Tensor ConvNorm::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  return apply(nonlinearity, norm(conv(x_nchw), mode));
}

ConvNorm make_conv_norm(const Scope& conv, const Scope& norm, const ConvNormPlan& plan) {
  ConvNorm block;
  block.conv = make_conv2d(conv, plan.conv);
  block.norm = make_batch_norm2d(norm, plan.conv.out, plan.norm);
  block.nonlinearity = plan.nonlinearity;
  return block;
}

ConvNorm make_conv_norm(const Scope& scope, const ConvNormPlan& plan) {
  return make_conv_norm(scope / 0, scope / 1, plan);
}

}  // namespace trainctl::stages
