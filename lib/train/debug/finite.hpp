#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::train {

/// Whether no element is NaN or infinite. Float32 on a CPU is read once, about as fast as the
/// memory gives it, in any order of dimensions without gaps; everything else goes through ATen. On
/// a GPU it waits for the device.
bool all_finite(const at::Tensor& tensor);
bool all_finite(at::TensorList tensors);

}  // namespace trainctl::train
