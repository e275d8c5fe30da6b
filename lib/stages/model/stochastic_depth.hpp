#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::stages {

/// Drops whole samples of a residual branch with probability `p` and scales those that survive by
/// 1/(1-p): torchvision's StochasticDepth in mode "row" (Huang et al. 2016), drawn from the
/// generator of x's device. Outside training, and at p = 0, it gives x itself. `p` is in [0, 1].
at::Tensor stochastic_depth(const at::Tensor& x, double p, bool training);

}  // namespace trainctl::stages
