#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::stages {

/// What follows a normalisation in the convolutional networks.
enum class Nonlinearity { none, relu, relu6, hardswish, silu };

/// The caller gives x away: it is overwritten where that saves memory.
at::Tensor apply(Nonlinearity nonlinearity, at::Tensor x);

}  // namespace trainctl::stages
