#include "stages/model/blocks/transformer_blocks.hpp"

#include "stages/model/blocks/fused_blocks.hpp"

#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include <optional>
#include <vector>

namespace trainctl::stages {
namespace {

void redraw(const Linear& layer) {
  constexpr double kBiasDeviation = 1e-6;
  redraw_xavier_uniform(layer.weight);
  redraw_normal(layer.bias, kBiasDeviation);
}

}  // namespace

at::Tensor attention(const std::array<at::Tensor, 3>& queries_keys_values,
                     const AttentionOptions& options) {
  std::array<at::Tensor, 3> parts = queries_keys_values;
  const std::int64_t rows = parts[0].size(0);
  const std::int64_t places = parts[0].size(1);
  const std::int64_t width = parts[0].size(2);
  for (at::Tensor& part : parts)
    part = part.view({rows, places, options.heads, width / options.heads}).transpose(1, 2);
  // Without a mask tensor, PyTorch selects its flash attention for 16 bits on a GPU.
  std::optional<at::Tensor> mask;
  if (options.keys.defined()) mask = options.keys.view({rows, 1, 1, places});
  const at::Tensor taken = at::scaled_dot_product_attention(
      parts[0], parts[1], parts[2], mask, options.dropout, options.mask == Mask::causal);
  return taken.transpose(1, 2).reshape({rows, places, width});
}

at::Tensor self_attention(const at::Tensor& qkv, const AttentionOptions& options) {
  // The gradient of a split is one concatenation.
  const std::vector<at::Tensor> parts = qkv.split(qkv.size(2) / 3, 2);
  return attention({parts[0], parts[1], parts[2]}, options);
}

at::Tensor MultiheadAttention::operator()(const at::Tensor& x, stage::RunMode mode) const {
  const double dropped = mode == stage::RunMode::train ? dropout : 0;
  return out_proj(self_attention(in_proj(x), {.heads = heads, .dropout = dropped, .mask = mask}));
}

MultiheadAttention make_multihead_attention(const Scope& scope, const AttentionPlan& plan) {
  const std::int64_t width = plan.width;
  const bool bias = plan.bias == Bias::with;
  const at::Tensor out_weight = draw_weight({width, width});
  if (bias) draw_bias(width, width);  // torch draws the bias before it sets it to 0
  const at::Tensor in_weight = at::empty({3 * width, width}, at::kFloat);
  redraw_xavier_uniform(in_weight);
  MultiheadAttention block;
  block.in_proj.weight = scope.parameter("in_proj_weight", in_weight);
  if (bias)
    block.in_proj.bias = scope.parameter("in_proj_bias", at::zeros({3 * width}, at::kFloat));
  block.out_proj.weight = (scope / "out_proj").parameter("weight", out_weight);
  if (bias)
    block.out_proj.bias = (scope / "out_proj").parameter("bias", at::zeros({width}, at::kFloat));
  block.heads = plan.heads;
  block.dropout = plan.dropout;
  block.mask = plan.mask;
  return block;
}

at::Tensor MlpBlock::operator()(const at::Tensor& x, stage::RunMode mode) const {
  const bool training = mode == stage::RunMode::train;
  const at::Tensor inner = at::dropout(linear_gelu(widen, x), dropout, training);
  return at::dropout(narrow(inner), dropout, training);
}

MlpBlock make_mlp_block(const Scope& scope, const MlpPlan& plan) {
  MlpBlock block;
  block.widen = make_linear(scope / 0, plan.width, plan.inner);
  block.narrow = make_linear(scope / 3, plan.inner, plan.width);
  redraw(block.widen);  // after both layers are drawn, as in torchvision
  redraw(block.narrow);
  block.dropout = plan.dropout;
  return block;
}

}  // namespace trainctl::stages
