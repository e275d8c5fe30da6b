#pragma once

#include "stages/model/blocks/layers.hpp"

#include <cstdint>

namespace trainctl::stages {

struct NormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // of the running averages
};

/// The running averages that a training step updates; undefined if they are not updated.
struct RunningAverages {
  at::Tensor mean;
  at::Tensor var;
};

/// nn.BatchNorm2d (Ioffe & Szegedy 2015): training uses the statistics of the batch and updates the
/// running averages; evaluation, and a layer whose parameters are frozen, use the running averages.
/// Keeps the memory format of x.
struct BatchNorm2d {
  at::Tensor weight;               // [channels]
  at::Tensor bias;                 // [channels]
  at::Tensor running_mean;         // [channels]
  at::Tensor running_var;          // [channels]
  at::Tensor num_batches_tracked;  // int64, 0-d
  NormOptions options;

  /// Throws Error(config) in training if a channel has only one value, and so no variance.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x_nchw, stage::RunMode mode) const;

  /// Returns whether the statistics of the batch are used; a layer without trained parameters keeps
  /// its averages, too.
  [[nodiscard]] bool trains(stage::RunMode mode) const {
    return mode == stage::RunMode::train && (weight.requires_grad() || bias.requires_grad());
  }

  /// Counts a batch in training, and returns what to update: nothing if the forward pass is
  /// repeated. Throws like operator().
  [[nodiscard]] RunningAverages count_batch(const at::Tensor& x_nchw) const;

  /// Normalizes by the statistics of all ranks' rows, in training if stage::batch_of_ranks() has a
  /// sum. All ranks get the same running averages.
  [[nodiscard]] at::Tensor forward_over_ranks(const at::Tensor& x_nchw) const;
};

/// Creates a layer with weight 1, bias 0, mean 0 and variance 1.
BatchNorm2d make_batch_norm2d(const Scope& scope, std::int64_t channels, NormOptions options = {});

}  // namespace trainctl::stages
