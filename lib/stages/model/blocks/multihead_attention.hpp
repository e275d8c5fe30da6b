#pragma once

#include "stages/model/blocks/attention.hpp"
#include "stages/model/blocks/scope.hpp"

#include <cstdint>

namespace trainctl::stages {

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

}  // namespace trainctl::stages
