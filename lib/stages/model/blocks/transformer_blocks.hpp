#pragma once

#include "stages/model/blocks/layers.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trainctl::stages {

enum class Mask { none, causal };

struct AttentionOptions {
  std::int64_t heads = 1;
  double dropout = 0;  // of the weights; 0 outside training
  Mask mask = Mask::none;
};

/// What each place of a sequence takes from all (or, causal, from those up to itself). `qkv`: [N,
/// T, 3 E] of queries, keys and values beside each other; returns [N, T, E].
at::Tensor self_attention(const at::Tensor& qkv, const AttentionOptions& options);

/// nn.MultiheadAttention of a sequence with itself (Vaswani et al. 2017).
struct MultiheadAttention {
  Linear in_proj;  // queries, keys and values in one
  Linear out_proj;
  std::int64_t heads = 1;
  double dropout = 0;  // of the attention weights

  /// x: [N, T, width].
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, stage::RunMode mode) const;
};

struct AttentionPlan {
  std::int64_t width = 0;
  std::int64_t heads = 1;  // divides the width
  double dropout = 0;
};

/// Draws in_proj_weight, in_proj_bias, out_proj.weight and out_proj.bias as torch does.
MultiheadAttention make_multihead_attention(const Scope& scope, const AttentionPlan& plan);

/// torchvision's MLPBlock: linear, GELU, dropout, linear, dropout. The names are "0" and "3".
struct MlpBlock {
  Linear widen;
  Linear narrow;
  double dropout = 0;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, stage::RunMode mode) const;
};

struct MlpPlan {
  std::int64_t width = 0;
  std::int64_t inner = 0;
  double dropout = 0;
};

/// Draws the weights by xavier_uniform_ and the biases from N(0, 1e-6), as torchvision does.
MlpBlock make_mlp_block(const Scope& scope, const MlpPlan& plan);

}  // namespace trainctl::stages
