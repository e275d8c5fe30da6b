#include "stages/model/blocks/batch_norm.hpp"

#include "base/error.hpp"
#include "stage/checkpoint.hpp"
#include "stages/model/blocks/sync_batch_norm.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

namespace trainctl::stages {

at::Tensor BatchNorm2d::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  // A frozen layer keeps its statistics, too.
  const bool training = mode == stage::RunMode::train && weight.requires_grad();
  const auto normalised = [&](const at::Tensor& mean, const at::Tensor& var) {
    return at::batch_norm(x_nchw, weight, bias, mean, var, training, options.momentum, options.eps,
                          /*cudnn_enabled=*/true);
  };
  if (!training) return normalised(running_mean, running_var);
  if (stage::batch_of_ranks().sum != nullptr) return over_ranks(x_nchw);
  ENSURE(config, x_nchw.numel() > x_nchw.size(1),
         "batch normalisation needs more than one value a channel, and a batch of one image leaves "
         "1x1 of it here: set loader.drop_last=true, or take larger batches or images");
  if (stage::is_recomputing()) return normalised({}, {});  // the averages have this batch already
  num_batches_tracked.add_(1);
  return normalised(running_mean, running_var);
}

at::Tensor BatchNorm2d::over_ranks(const at::Tensor& x_nchw) const {
  const stage::BatchOfRanks ranks = stage::batch_of_ranks();
  const BatchStatistics batch = batch_statistics(x_nchw, ranks);
  ENSURE(config, !x_nchw.is_cpu() || batch.count.item<double>() > 1,
         "batch normalisation needs more than one value a channel, and the last batch has one on "
         "all ranks together: set loader.drop_last=true, or take larger batches or images");
  if (!stage::is_recomputing()) {
    const at::NoGradGuard guard;
    const at::Tensor unbiased =
        batch.var * (batch.count / (batch.count - 1).clamp_min(1)).to(at::kFloat);
    num_batches_tracked.add_(1);
    running_mean.mul_(1 - options.momentum).add_(batch.mean, options.momentum);
    running_var.mul_(1 - options.momentum).add_(unbiased, options.momentum);
  }
  return normalise_over_ranks(x_nchw, {weight, bias, options.eps}, batch, ranks);
}

BatchNorm2d make_batch_norm2d(const Scope& scope, std::int64_t channels, NormOptions options) {
  BatchNorm2d layer;
  layer.weight = scope.parameter("weight", at::ones({channels}, at::kFloat));
  layer.bias = scope.parameter("bias", at::zeros({channels}, at::kFloat));
  layer.running_mean = scope.buffer("running_mean", at::zeros({channels}, at::kFloat));
  layer.running_var = scope.buffer("running_var", at::ones({channels}, at::kFloat));
  layer.num_batches_tracked = scope.buffer("num_batches_tracked", at::zeros({}, at::kLong));
  layer.options = options;
  return layer;
}

}  // namespace trainctl::stages
