#include "stages/model/blocks/attention.hpp"

#include <ATen/ops/scaled_dot_product_attention.h>

namespace trainctl::stages {

at::Tensor self_attention(const at::Tensor& qkv, const AttentionOptions& options) {
  const std::int64_t rows = qkv.size(0);
  const std::int64_t places = qkv.size(1);
  const std::int64_t width = qkv.size(2) / 3;
  const at::Tensor by_head =
      qkv.view({rows, places, 3, options.heads, width / options.heads}).permute({2, 0, 3, 1, 4});
  const at::Tensor taken = at::scaled_dot_product_attention(
      by_head.select(0, 0), by_head.select(0, 1), by_head.select(0, 2), /*attn_mask=*/{},
      options.dropout, options.mask == Mask::causal);
  return taken.transpose(1, 2).reshape({rows, places, width});
}

}  // namespace trainctl::stages
