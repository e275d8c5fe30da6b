#include "stages/model/blocks/batch_norm.hpp"

#include "base/error.hpp"
#include "stage/checkpoint.hpp"

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
  ENSURE(config, x_nchw.numel() > x_nchw.size(1),
         "batch normalisation needs more than one value a channel, and a batch of one image leaves "
         "1x1 of it here: set loader.drop_last=true, or take larger batches or images");
  if (stage::is_recomputing()) return normalised({}, {});  // the averages have this batch already
  num_batches_tracked.add_(1);
  return normalised(running_mean, running_var);
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
