#pragma once

#include "stages/model/blocks/layers.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

// Parts of transformers with CUDA kernels. Functions without a suffix use the kernels where they
// apply, and PyTorch's operators elsewhere.

namespace trainctl::stages {

/// The residual stream of a transformer between two blocks.
struct Residual {
  at::Tensor x;
  at::Tensor branch = {};  // to be added to x; undefined: nothing

  /// Returns x + branch.
  [[nodiscard]] at::Tensor sum() const { return branch.defined() ? x + branch : x; }
};

struct Normed {
  at::Tensor sum;     // x + branch
  at::Tensor normed;  // layer norm of the sum; on a GPU in the type that autocast selects
};

/// Adds the branch and normalizes the sum over its last dimension, for layers that autocast runs in
/// 16 bits.
Normed add_norm(const LayerNorm& norm, const Residual& residual);

/// Returns whether the kernel supports the arguments: float32 x on a GPU, a weight of one dimension
/// that is a multiple of 4 and at most 4096, and a branch, if any, of type `out`.
bool fuses_add_norm(const LayerNorm& norm, const Residual& residual, at::ScalarType out);

/// Computes add_norm() and its gradients with one kernel each, and float32 sums; on a CPU with an
/// equivalent implementation. `out` is the type of `normed`. Has no second derivative. Throws
/// Error(resource) if a kernel launch fails.
Normed fused_add_norm(const LayerNorm& norm, const Residual& residual, at::ScalarType out);

enum class Gelu { tanh, erf };

/// Returns whether the kernel supports the GELU of a layer on the input x that adds `bias`: x of
/// float32, bfloat16 or float16 on a GPU, and a float32 bias of a multiple of 8 numbers.
bool fuses_bias_gelu(const at::Tensor& x, const at::Tensor& bias);

/// Computes gelu(x + bias) and its gradients with one kernel each, in float32; on a CPU with an
/// equivalent implementation. x is [..., N] and bias float32 [N]. Has no second derivative. Throws
/// Error(resource) if a kernel launch fails.
at::Tensor fused_bias_gelu(const at::Tensor& x, const at::Tensor& bias, Gelu approximation);

/// Returns linear(x, weight) for x [..., K] and a weight [N, K]: the output layer of a language
/// model. A GPU multiplies matrices of 16 bits several times faster if N is a multiple of 8, so
/// other weights are padded there.
at::Tensor output_layer(const at::Tensor& x, const at::Tensor& weight);

/// Returns a matrix of `columns` columns that starts with those of x [N, M] and has 0 in the
/// others. Copies x, except if its rows already have this padding and no other tensor sees their
/// memory: the padding may be a part of the other tensor.
at::Tensor pad_columns(const at::Tensor& x, std::int64_t columns);

/// Computes linear(x, weight) in the type `compute`, with a weight that is padded to a multiple of
/// 8 rows. The result has the padding between its rows. If its gradient has it, too, as that of
/// fused_entropy(), nothing is copied.
at::Tensor padded_linear(const at::Tensor& x, const at::Tensor& weight, at::ScalarType compute);

/// Returns GELU (by erf) of the layer's output.
at::Tensor linear_gelu(const Linear& layer, const at::Tensor& x);

}  // namespace trainctl::stages
