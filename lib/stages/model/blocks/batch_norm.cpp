#include "stages/model/blocks/batch_norm.hpp"

#include "base/error.hpp"
#include "device/host_read.hpp"
#include "stage/checkpoint.hpp"
#include "stage/forward_context.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace trainctl::stages {
namespace {

/// Mean and variance of each channel over the rows of all ranks that have rows, exact however the
/// rows are distributed.
struct BatchStatistics {
  at::Tensor mean;   // float32 [channels]
  at::Tensor var;    // float32 [channels]: the biased variance
  at::Tensor count;  // float64, 0-d: number of values per channel
};

struct Affine {
  at::Tensor weight;  // [channels]
  at::Tensor bias;    // [channels]
  double eps = 1e-5;
};

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Returns all dimensions but the channels.
std::vector<std::int64_t> dims_without_channels(const at::Tensor& x) {
  std::vector<std::int64_t> dims{0};
  for (std::int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

/// Reshapes [channels] so that it broadcasts against x.
at::Tensor broadcast_to(const at::Tensor& of_channels, const at::Tensor& x) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[1] = of_channels.size(0);
  return of_channels.view(shape);
}

struct Ranks : torch::CustomClassHolder {
  explicit Ranks(const stage::BatchOfRanks& ranks) : batch(ranks) {}
  stage::BatchOfRanks batch;
};

struct Sums {
  at::Tensor dy;   // [channels]: sum of the gradient
  at::Tensor dot;  // [channels]: sum of the gradient times the centered input
};

/// Returns the sums over all ranks divided by `count`.
Sums average_over_ranks(const Sums& own, const at::Tensor& count,
                        const stage::BatchOfRanks& ranks) {
  at::Tensor both = at::cat({own.dy, own.dot}).to(at::kDouble);
  if (!ranks.counts) both.zero_();
  ranks.sum->add(both);
  both.div_(count);
  const std::vector<at::Tensor> halves = both.to(at::kFloat).chunk(2);
  return {halves[0], halves[1]};
}

struct Normalize : torch::autograd::Function<Normalize> {
  // NOLINTNEXTLINE(readability-function-size): libtorch passes each input as an argument
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& mean, const at::Tensor& var,
                            const at::Tensor& count, double eps,
                            const c10::intrusive_ptr<Ranks>& ranks) {
    context->save_for_backward({x, weight, mean, var, count});
    context->saved_data["eps"] = eps;
    context->saved_data["ranks"] = c10::IValue::make_capsule(ranks);
    return at::batch_norm(x, weight, bias, mean, var, /*training=*/false, /*momentum=*/0, eps,
                          /*cudnn_enabled=*/true);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &var = saved[3];
    const stage::BatchOfRanks& ranks =
        c10::static_intrusive_pointer_cast<Ranks>(context->saved_data["ranks"].toCapsule())->batch;
    const at::Tensor dy = gradients[0].to(at::kFloat);
    const at::Tensor inverse = (var + context->saved_data["eps"].toDouble()).rsqrt();
    at::Tensor centered = x.to(at::kFloat) - broadcast_to(mean, x);
    const Sums own{dy.sum(dims_without_channels(x)), (dy * centered).sum(dims_without_channels(x))};
    at::Tensor dx;
    if (context->needs_input_grad(0)) {
      const Sums all = average_over_ranks(own, saved[4], ranks);
      centered.mul_(broadcast_to(inverse.square() * all.dot, x));
      dx = (dy - broadcast_to(all.dy, x)).sub_(centered).mul_(broadcast_to(inverse * weight, x));
      if (!ranks.counts) dx.zero_();  // the statistics do not depend on this rank's rows
      dx = dx.to(x.scalar_type());
    }
    return {dx, own.dot * inverse, own.dy, {}, {}, {}, {}, {}};
  }
};

/// Computes the statistics with one all-reduce. x: [N, channels, ...].
BatchStatistics batch_statistics(const at::Tensor& x, const stage::BatchOfRanks& ranks) {
  const at::NoGradGuard guard;
  const std::int64_t channels = x.size(1);
  const at::Tensor sums =
      at::zeros({2 * channels + 1}, x.options().dtype(at::kDouble).requires_grad(false));
  if (ranks.counts) {
    const auto [var, mean] = at::var_mean(x.detach().to(at::kFloat), dims_without_channels(x),
                                          std::optional<at::Scalar>(0), /*keepdim=*/false);
    const auto count = static_cast<double>(x.numel() / channels);
    const at::Tensor wide = mean.to(at::kDouble);
    sums.narrow(0, 0, channels).copy_(wide * count);
    sums.narrow(0, channels, channels).copy_((var.to(at::kDouble) + wide.square()) * count);
    sums.narrow(0, 2 * channels, 1).fill_(count);
  }
  ranks.sum->add(sums);
  const at::Tensor count = sums.select(0, 2 * channels);
  const at::Tensor mean = sums.narrow(0, 0, channels) / count;
  const at::Tensor var = sums.narrow(0, channels, channels) / count - mean.square();
  return {mean.to(at::kFloat), var.clamp_min(0).to(at::kFloat), count};
}

/// Normalizes x by the statistics. The backward pass treats them as functions of the rows of all
/// ranks and all-reduces two sums per channel. The gradients of weight and bias are those of this
/// rank's rows.
at::Tensor normalize_over_ranks(const at::Tensor& x, const Affine& affine,
                                const BatchStatistics& statistics,
                                const stage::BatchOfRanks& ranks) {
  return Normalize::apply(x, affine.weight, affine.bias, statistics.mean, statistics.var,
                          statistics.count, affine.eps, c10::make_intrusive<Ranks>(ranks));
}

}  // namespace

at::Tensor BatchNorm2d::operator()(const at::Tensor& x_nchw, stage::RunMode mode) const {
  const bool training = trains(mode);
  if (training && stage::batch_of_ranks().sum != nullptr) return forward_over_ranks(x_nchw);
  const RunningAverages averages =
      training ? count_batch(x_nchw) : RunningAverages{running_mean, running_var};
  return at::batch_norm(x_nchw, weight, bias, averages.mean, averages.var, training,
                        options.momentum, options.eps, /*cudnn_enabled=*/true);
}

RunningAverages BatchNorm2d::count_batch(const at::Tensor& x_nchw) const {
  ENSURE(
      config, x_nchw.numel() > x_nchw.size(1),
      "batch normalization needs more than one value per channel, but here the batch is one image "
      "of 1x1 pixels\nhint: set loader.drop_last=true, use larger batches or larger images");
  if (stage::is_recomputing()) return {};  // already counted
  stage::increment(num_batches_tracked);
  return {running_mean, running_var};
}

at::Tensor BatchNorm2d::forward_over_ranks(const at::Tensor& x_nchw) const {
  const stage::BatchOfRanks ranks = stage::batch_of_ranks();
  const BatchStatistics batch = batch_statistics(x_nchw, ranks);
  ENSURE(config, !x_nchw.is_cpu() || device::value_of<double>(batch.count, "rows of a batch") > 1,
         "batch normalization needs more than one value per channel, but the last batch has only "
         "one on all ranks together\nhint: set loader.drop_last=true, use larger batches or larger "
         "images");
  if (!stage::is_recomputing()) {
    const at::NoGradGuard guard;
    const at::Tensor unbiased =
        batch.var * (batch.count / (batch.count - 1).clamp_min(1)).to(at::kFloat);
    stage::increment(num_batches_tracked);
    running_mean.mul_(1 - options.momentum).add_(batch.mean, options.momentum);
    running_var.mul_(1 - options.momentum).add_(unbiased, options.momentum);
  }
  return normalize_over_ranks(x_nchw, {weight, bias, options.eps}, batch, ranks);
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
