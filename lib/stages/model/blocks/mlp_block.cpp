#include "stages/model/blocks/mlp_block.hpp"

#include "stages/model/blocks/redraw.hpp"

#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>

namespace trainctl::stages {
namespace {

void redraw(const Linear& layer) {
  constexpr double kBiasDeviation = 1e-6;
  redraw_xavier_uniform(layer.weight);
  redraw_normal(layer.bias, kBiasDeviation);
}

}  // namespace

at::Tensor MlpBlock::operator()(const at::Tensor& x, stage::RunMode mode) const {
  const bool training = mode == stage::RunMode::train;
  const at::Tensor inner = at::dropout(at::gelu(widen(x)), dropout, training);
  return at::dropout(narrow(inner), dropout, training);
}

MlpBlock make_mlp_block(const Scope& scope, const MlpPlan& plan) {
  MlpBlock block;
  block.widen = make_linear(scope / 0, plan.width, plan.inner);
  block.narrow = make_linear(scope / 3, plan.inner, plan.width);
  redraw(block.widen);  // after both were drawn: torchvision's order
  redraw(block.narrow);
  block.dropout = plan.dropout;
  return block;
}

}  // namespace trainctl::stages
