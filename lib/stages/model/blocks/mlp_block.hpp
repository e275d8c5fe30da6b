#pragma once

#include "stages/model/blocks/linear.hpp"

namespace trainctl::stages {

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
