#pragma once

#include "stages/model/blocks/layers.hpp"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace trainctl::stages {

enum class Mask { none, causal };

struct AttentionOptions {
  std::int64_t heads = 1;
  double dropout = 0;  // of the attention weights; 0 outside of training
  Mask mask = Mask::none;
  at::Tensor keys = {};  // bool [N, T]: the positions to attend to; undefined: all. Excludes `mask`
};

/// Returns the attention [N, T, E] for queries, keys and values of that shape.
at::Tensor attention(const std::array<at::Tensor, 3>& queries_keys_values,
                     const AttentionOptions& options);

/// Returns the self-attention [N, T, E] of a sequence; with a causal mask each position attends
/// only to itself and earlier ones. `qkv` is [N, T, 3 E]: queries, keys and values concatenated.
at::Tensor self_attention(const at::Tensor& qkv, const AttentionOptions& options);

/// nn.MultiheadAttention with the same input as query, key and value (Vaswani et al. 2017).
struct MultiheadAttention {
  Linear in_proj;  // queries, keys and values together
  Linear out_proj;
  std::int64_t heads = 1;
  double dropout = 0;  // of the attention weights
  Mask mask = Mask::none;

  /// x: [N, T, width].
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, stage::RunMode mode) const;
};

struct AttentionPlan {
  std::int64_t width = 0;
  std::int64_t heads = 1;  // must divide the width
  double dropout = 0;
  Bias bias = Bias::with;
  Mask mask = Mask::none;
};

/// Creates in_proj_weight, in_proj_bias, out_proj.weight and out_proj.bias, initialized as in
/// torch.
MultiheadAttention make_multihead_attention(const Scope& scope, const AttentionPlan& plan);

/// torchvision's MLPBlock: linear, GELU, dropout, linear, dropout. The layers are named "0" and
/// "3".
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

/// Initializes weights by xavier_uniform_ and biases from N(0, 1e-6), like torchvision.
MlpBlock make_mlp_block(const Scope& scope, const MlpPlan& plan);

}  // namespace trainctl::stages
