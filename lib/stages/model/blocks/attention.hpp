#pragma once

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

}  // namespace trainctl::stages
