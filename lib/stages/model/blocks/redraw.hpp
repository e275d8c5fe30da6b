#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::stages {

// Initialisers of torch.nn.init, step by step: the same seed gives PyTorch's bits. They fill a
// tensor anew, on the CPU and from its global generator.

/// Glorot & Bengio 2010: uniform, by the number of inputs and outputs of a [out, in] weight.
void redraw_xavier_uniform(const at::Tensor& weight);
/// Normal with the mean 0, redrawn within +-2 (not: within 2 deviations), as PyTorch's defaults.
void redraw_trunc_normal(const at::Tensor& tensor, double std);
void redraw_normal(const at::Tensor& tensor, double std);

}  // namespace trainctl::stages
