#include "stages/loss/fused_entropy.hpp"

#include "base/error.hpp"
#include "device/device.hpp"
#include "device/kernels.hpp"
#include "stage/forward_context.hpp"
#include "stages/kernel_calls.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace trainctl::stages {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kNoClass = -100;  // default of ignore_index in torch
constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

float scale_of(const FusedEntropy& options, std::int64_t rows) {
  return options.reduction == FusedEntropy::Reduction::mean ? 1 / static_cast<float>(rows) : 1;
}

/// Returns the factor of the reduced loss in the value whose gradient is computed; NaN if it is not
/// known yet. A sum of weighted rows is divided only after the backward pass.
float expected_gradient(const FusedEntropy& options) {
  const std::optional<double> factor = stage::loss_gradient();
  if (!factor) return kUnknown;
  return options.reduction == FusedEntropy::Reduction::mean ? static_cast<float>(*factor) : 1;
}

constexpr std::int64_t kMostPadding = 64;  // elements after a row

/// Returns the elements between two rows; the stride of a single row has no meaning.
std::int64_t row_stride(const at::Tensor& logits) {
  return logits.size(0) == 1 ? logits.size(1) : logits.stride(0);
}

/// Returns logits whose rows are contiguous, with little padding between them.
at::Tensor make_rows_dense(const at::Tensor& logits) {
  const std::int64_t padding = row_stride(logits) - logits.size(1);
  const bool dense = logits.stride(1) == 1 && padding >= 0 && padding < kMostPadding;
  return dense && is_aligned(logits) ? logits : make_aligned(logits);
}

/// Returns memory for gradients, with the same padding.
at::Tensor gradients_for(const at::Tensor& logits) {
  return at::empty({logits.size(0), row_stride(logits)}, logits.options())
      .narrow(1, 0, logits.size(1));
}

/// The tensors of a call, with contiguous rows; undefined ones are not used.
struct Arguments {
  at::Tensor logits;
  ClassTargets targets;
  at::Tensor weight;
};

template <class T>
const T* data_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}

at::Tensor make_contiguous(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

/// Returns the probabilities with the distance between rows that the logits have.
at::Tensor make_rows_like(const at::Tensor& logits, const at::Tensor& probabilities) {
  if (!probabilities.defined()) return probabilities;
  const std::int64_t stride = row_stride(logits);
  if (probabilities.stride(1) == 1 && row_stride(probabilities) == stride &&
      is_aligned(probabilities))
    return probabilities;
  return at::empty_strided(probabilities.sizes(), {stride, 1}, probabilities.options())
      .copy_(probabilities);
}

Arguments arguments_of(const at::Tensor& logits, const ClassTargets& targets,
                       const FusedEntropy& options) {
  const at::Tensor rows = make_rows_dense(logits.detach());
  return {rows,
          {make_contiguous(targets.classes), make_contiguous(targets.partners),
           make_contiguous(targets.lambda), make_rows_like(rows, targets.probabilities)},
          make_contiguous(options.weight)};
}

device::RowEntropy job_of(const Arguments& arguments, const FusedEntropy& options) {
  ASSERT(!arguments.weight.defined() || arguments.weight.numel() == arguments.logits.size(1));
  device::RowEntropy job;
  job.logits = arguments.logits.const_data_ptr();
  job.stride = row_stride(arguments.logits);
  job.type = element_of(arguments.logits);
  job.targets = data_of<std::int64_t>(arguments.targets.classes);
  job.partners = data_of<std::int64_t>(arguments.targets.partners);
  job.lambdas = data_of<float>(arguments.targets.lambda);
  job.probabilities = data_of<float>(arguments.targets.probabilities);
  job.weights = data_of<float>(arguments.weight);
  job.rows = arguments.logits.size(0);
  job.classes = arguments.logits.size(1);
  job.weight_sum = static_cast<float>(
      arguments.weight.defined() ? options.weight_sum : static_cast<double>(job.classes));
  job.ignored = options.ignored.value_or(kNoClass);
  job.smoothing = static_cast<float>(options.label_smoothing);
  job.scale = scale_of(options, job.rows);
  return job;
}

void run(const device::RowEntropy& job, at::Device device) {
  if (device.is_cpu()) {
    device::row_entropy_on_host(job);
  } else {
    check_launch(device::launch_row_entropy(job, device::current_stream(device)), "cross_entropy");
  }
}

at::Tensor reduce(const at::Tensor& losses, const FusedEntropy& options) {
  switch (options.reduction) {
    case FusedEntropy::Reduction::none: return losses;
    case FusedEntropy::Reduction::sum: return losses.sum();
    case FusedEntropy::Reduction::mean: return losses.mean();
  }
  return {};
}

at::Tensor losses_for(const Arguments& arguments) {
  return at::empty({arguments.logits.size(0)}, arguments.logits.options().dtype(at::kFloat));
}

struct Fused : torch::autograd::Function<Fused> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const ClassTargets& targets, const FusedEntropy& options) {
    const Arguments arguments = arguments_of(logits, targets, options);
    const at::Tensor losses = losses_for(arguments);
    const at::Tensor stats = at::empty({losses.size(0), 2}, losses.options());
    const float expected = expected_gradient(options);
    at::Tensor gradients;
    device::RowEntropy job = job_of(arguments, options);
    job.losses = losses.mutable_data_ptr<float>();
    job.stats = stats.mutable_data_ptr<float>();
    if (!std::isnan(expected)) {
      gradients = gradients_for(arguments.logits);
      job.gradients = gradients.mutable_data_ptr();
      job.scale *= expected;
    }
    run(job, logits.device());
    context->save_for_backward({arguments.logits, arguments.targets.classes,
                                arguments.targets.partners, arguments.targets.lambda,
                                arguments.targets.probabilities, arguments.weight, stats,
                                gradients});
    context->saved_data["smoothing"] = options.label_smoothing;
    context->saved_data["ignored"] = options.ignored.value_or(kNoClass);
    context->saved_data["weight_sum"] = options.weight_sum;
    context->saved_data["mean"] = options.reduction == FusedEntropy::Reduction::mean;
    context->saved_data["expected"] = static_cast<double>(expected);
    return reduce(losses, options);
  }

  /// Computes the gradients with the factor, which only the device knows, unless they were already
  /// computed with the same factor.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    using Reduction = FusedEntropy::Reduction;
    const Arguments arguments{saved[0], {saved[1], saved[2], saved[3], saved[4]}, saved[5]};
    const FusedEntropy options{
        .reduction = data["mean"].toBool() ? Reduction::mean : Reduction::sum,
        .label_smoothing = data["smoothing"].toDouble(),
        .ignored = data["ignored"].toInt(),
        .weight = saved[5],
        .weight_sum = data["weight_sum"].toDouble()};
    // A second call must not change what the first one has returned.
    const bool first = data.find("returned") == data.end();
    data["returned"] = true;
    const at::Tensor result =
        saved[7].defined() && first ? saved[7] : gradients_for(arguments.logits);
    const at::Tensor factor = gradients[0].contiguous();
    device::RowEntropy job = job_of(arguments, options);
    job.stats = saved[6].mutable_data_ptr<float>();
    job.gradients = result.mutable_data_ptr();
    job.factor = factor.const_data_ptr<float>();
    if (first) job.expected = static_cast<float>(data["expected"].toDouble());
    run(job, result.device());
    return {result, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool fuses_entropy(const at::Tensor& logits, const ClassTargets& targets) {
  const auto fits = [&](const at::Tensor& tensor, at::ScalarType type) {
    return tensor.device() == logits.device() && tensor.scalar_type() == type &&
           tensor.dim() == 1 && tensor.size(0) == logits.size(0);
  };
  if (!has_kernels(logits) || logits.dim() != 2) return false;
  if (const at::Tensor& p = targets.probabilities; p.defined()) {
    return p.device() == logits.device() && p.scalar_type() == at::kFloat &&
           p.sizes() == logits.sizes() && !p.requires_grad();
  }
  return fits(targets.classes, at::kLong) &&
         (!targets.partners.defined() ||
          (fits(targets.partners, at::kLong) && fits(targets.lambda, at::kFloat)));
}

at::Tensor fused_entropy(const at::Tensor& logits, const ClassTargets& targets,
                         const FusedEntropy& options) {
  const bool differentiates = at::GradMode::is_enabled() && logits.requires_grad() &&
                              options.reduction != FusedEntropy::Reduction::none;
  if (differentiates) {
    const at::Tensor& target =
        targets.probabilities.defined() ? targets.probabilities : targets.classes;
    return record_operator("trainctl::cross_entropy", {logits, target},
                           [&] { return Fused::apply(logits, targets, options); });
  }
  const Arguments arguments = arguments_of(logits, targets, options);
  const at::Tensor losses = losses_for(arguments);
  device::RowEntropy job = job_of(arguments, options);
  job.losses = losses.mutable_data_ptr<float>();
  run(job, logits.device());
  return reduce(losses, options);
}

}  // namespace trainctl::stages
