#pragma once

#include "stages/model/blocks/layers.hpp"

#include <cstdint>

namespace trainctl::stages {

struct NormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // of the running averages
};

/// nn.BatchNorm2d (Ioffe & Szegedy 2015): in training the statistics of the batch, which also go
/// into the running averages; in evaluation, and where its weight is frozen, those averages. Keeps
/// the memory format of x.
struct BatchNorm2d {
  at::Tensor weight;               // [channels]
  at::Tensor bias;                 // [channels]
  at::Tensor running_mean;         // [channels]
  at::Tensor running_var;          // [channels]
  at::Tensor num_batches_tracked;  // int64, 0-d
  NormOptions options;

  /// Throws Error(config) in training where a channel has one value only: it has no variance.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;

  /// In training, where stage::batch_of_ranks() says so: with the statistics of all ranks' rows,
  /// which leaves the same running averages on each of them.
  [[nodiscard]] at::Tensor over_ranks(const at::Tensor& x_nchw) const;
};

BatchNorm2d make_batch_norm2d(const Scope& scope, std::int64_t channels, NormOptions options = {});

}  // namespace trainctl::stages
