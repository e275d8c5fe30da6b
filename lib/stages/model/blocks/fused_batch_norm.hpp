#pragma once

#include "stages/model/blocks/batch_norm.hpp"

#include <ATen/core/Tensor.h>

// Batch normalization and the relu after it, if any, with CUDA kernels for images in channels_last.

namespace trainctl::stages {

/// Returns relu(norm(x) + residual) by the kernels if they support it, else by PyTorch's operators.
/// An undefined residual adds nothing. Keeps the memory format of x.
at::Tensor batch_norm_relu(const BatchNorm2d& norm, const at::Tensor& x_nchw, stage::RunMode mode,
                           const at::Tensor& residual = {});

/// Returns norm(x) in the same way.
at::Tensor batch_norm(const BatchNorm2d& norm, const at::Tensor& x_nchw, stage::RunMode mode);

/// Returns whether the kernels support the arguments: float32, bfloat16 or float16 on a GPU in
/// channels_last, with a multiple of 16 bytes per pixel, and a residual of the same kind, if any.
/// Statistics summed over ranks are not supported, and gradients only with those of the batch.
bool fuses_batch_norm(const BatchNorm2d& norm, const at::Tensor& x_nchw, stage::RunMode mode,
                      const at::Tensor& residual = {});

/// What the kernels compute from the normalized values in the same pass.
struct NormEpilogue {
  at::Tensor residual = {};  // to be added; undefined: none
  bool relu = true;
};

/// Computes batch_norm_relu() or batch_norm() and its gradients with the kernels, on a CPU with an
/// equivalent implementation. x and the residual are contiguous in channels_last, aligned to 16
/// bytes and of the same type. Updates the running averages in training. Has no second derivative.
/// Throws Error(config) like BatchNorm2d, and Error(resource) if a kernel launch fails.
at::Tensor fused_batch_norm(const BatchNorm2d& norm, const at::Tensor& x_nchw, stage::RunMode mode,
                            const NormEpilogue& epilogue = {});

}  // namespace trainctl::stages
