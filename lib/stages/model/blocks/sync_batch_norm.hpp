#pragma once

#include "stage/forward_context.hpp"

#include <ATen/core/Tensor.h>

namespace trainctl::stages {

/// Mean and variance of each channel over the rows of all ranks that count, exact however they are
/// spread.
struct BatchStatistics {
  at::Tensor mean;   // float32 [channels]
  at::Tensor var;    // float32 [channels]: the mean square, not yet unbiased
  at::Tensor count;  // float64, 0-d: values of a channel
};

/// One exchange. x: [N, channels, ...].
BatchStatistics batch_statistics(const at::Tensor& x, const stage::BatchOfRanks& ranks);

struct Affine {
  at::Tensor weight;  // [channels]
  at::Tensor bias;    // [channels]
  double eps = 1e-5;
};

/// x normalised by those statistics. The backward pass takes them for what they are, functions of
/// the rows of all ranks, and exchanges two sums a channel. Gradients of weight and bias are those
/// of this rank's rows.
at::Tensor normalise_over_ranks(const at::Tensor& x, const Affine& affine,
                                const BatchStatistics& statistics,
                                const stage::BatchOfRanks& ranks);

}  // namespace trainctl::stages
