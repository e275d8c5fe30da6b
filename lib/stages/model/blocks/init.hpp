#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace trainctl::stages {

/// What becomes of the linear layers that nn.Linear drew.
enum class LinearDraw {
  keep,     // ResNet
  normal,   // N(0, 0.01): MobileNet
  uniform,  // +-1/sqrt(outputs): EfficientNet
};

/// The last lines of torchvision's constructors: the weights of convolutions are drawn anew by
/// kaiming_normal_ (mode fan_out), linear ones as `linear` says, and their biases become 0. In the
/// order of the parameters, from the global CPU generator, so that a seed gives torchvision's
/// weights.
void initialise(const std::vector<stage::NamedTensor>& parameters, LinearDraw linear);

// Initialisers of torch.nn.init, step by step: the same seed gives PyTorch's bits. They fill a
// tensor anew, on the CPU and from its global generator.

/// Glorot & Bengio 2010: uniform, by the number of inputs and outputs of a [out, in] weight.
void redraw_xavier_uniform(const at::Tensor& weight);
/// Normal with the mean 0, redrawn within +-2 (not: within 2 deviations), as PyTorch's defaults.
void redraw_trunc_normal(const at::Tensor& tensor, double std);
void redraw_normal(const at::Tensor& tensor, double std);

}  // namespace trainctl::stages
