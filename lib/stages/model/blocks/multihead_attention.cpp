#include "stages/model/blocks/multihead_attention.hpp"

#include "stages/model/blocks/redraw.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace trainctl::stages {

at::Tensor MultiheadAttention::operator()(const at::Tensor& x, stage::RunMode mode) const {
  const double dropped = mode == stage::RunMode::train ? dropout : 0;
  return out_proj(self_attention(in_proj(x), {.heads = heads, .dropout = dropped}));
}

MultiheadAttention make_multihead_attention(const Scope& scope, const AttentionPlan& plan) {
  const std::int64_t width = plan.width;
  const at::Tensor out_weight = draw_weight({width, width});
  draw_bias(width, width);  // torch draws it, and then sets it to 0
  const at::Tensor in_weight = at::empty({3 * width, width}, at::kFloat);
  redraw_xavier_uniform(in_weight);
  MultiheadAttention block;
  block.in_proj.weight = scope.parameter("in_proj_weight", in_weight);
  block.in_proj.bias = scope.parameter("in_proj_bias", at::zeros({3 * width}, at::kFloat));
  block.out_proj.weight = (scope / "out_proj").parameter("weight", out_weight);
  block.out_proj.bias = (scope / "out_proj").parameter("bias", at::zeros({width}, at::kFloat));
  block.heads = plan.heads;
  block.dropout = plan.dropout;
  return block;
}

}  // namespace trainctl::stages
