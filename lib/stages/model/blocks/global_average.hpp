#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::stages {

/// The mean of each channel, [N, C]: what AdaptiveAvgPool2d(1) and flatten give.
at::Tensor global_average(const at::Tensor& x_nchw);

}  // namespace trainctl::stages
