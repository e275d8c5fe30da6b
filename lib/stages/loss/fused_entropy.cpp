#include "stages/loss/fused_entropy.hpp"

#include "base/error.hpp"
#include "device/device.hpp"
#include "device/kernels.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cstdint>
#include <vector>

namespace trainctl::stages {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kNoClass = -100;  // default of ignore_index in torch

double scale_of(const FusedEntropy& options, std::int64_t rows) {
  return options.reduction == FusedEntropy::Reduction::mean ? 1 / static_cast<double>(rows) : 1;
}

/// Returns the losses of the rows, and writes the derivative of the result with respect to the
/// logits into `gradients` if it is defined.
at::Tensor losses_of(const at::Tensor& logits, const at::Tensor& classes,
                     const FusedEntropy& options, const at::Tensor& gradients) {
  const at::Tensor rows = logits.contiguous();
  const at::Tensor targets = classes.contiguous();
  const at::Tensor losses = at::empty({rows.size(0)}, rows.options().requires_grad(false));
  device::RowEntropy job;
  job.logits = rows.const_data_ptr<float>();
  job.targets = targets.const_data_ptr<std::int64_t>();
  job.rows = rows.size(0);
  job.classes = rows.size(1);
  job.ignored = options.ignored.value_or(kNoClass);
  job.smoothing = static_cast<float>(options.label_smoothing);
  job.losses = losses.mutable_data_ptr<float>();
  if (gradients.defined()) job.gradients = gradients.mutable_data_ptr<float>();
  job.scale = static_cast<float>(scale_of(options, job.rows));
  if (rows.is_cpu()) {
    device::row_entropy_on_host(job);
    return losses;
  }
  const char* failure = device::launch_row_entropy(job, device::current_stream(rows.device()));
  ENSURE(resource, failure == nullptr,
         "cannot run the loss kernel on {} rows of {} classes: {}\nhint: run 'trainctl doctor'",
         job.rows, job.classes, failure);
  return losses;
}

at::Tensor reduced(const at::Tensor& losses, const FusedEntropy& options) {
  return options.reduction == FusedEntropy::Reduction::mean ? losses.mean() : losses.sum();
}

struct Fused : torch::autograd::Function<Fused> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& classes, const FusedEntropy& options) {
    const at::Tensor gradients = at::empty(logits.sizes(), logits.options().requires_grad(false));
    const at::Tensor losses = losses_of(logits, classes, options, gradients);
    context->save_for_backward({gradients});
    return reduced(losses, options);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "the fused cross entropy has no second derivative\nhint: remove create_graph");
    return {context->get_saved_variables()[0] * gradients[0], at::Tensor(), at::Tensor()};
  }
};

/// Records the call like the dispatcher does for an operator, so that profilers show it. It has the
/// sequence number of its autograd node, so that the backward pass is attributed to the loss.
at::Tensor apply_recorded(const at::Tensor& logits, const at::Tensor& classes,
                          const FusedEntropy& options) {
  at::RecordFunction record(at::RecordScope::FUNCTION);
  if (!record.isActive()) return Fused::apply(logits, classes, options);
  const std::array<c10::IValue, 2> inputs{logits, classes};
  record.before("trainctl::cross_entropy",
                c10::ArrayRef<const c10::IValue>(inputs.data(), inputs.size()),
                static_cast<std::int64_t>(at::sequence_number::peek()));
  at::Tensor loss = Fused::apply(logits, classes, options);
  if (record.needsOutputs()) record.setOutputs(std::vector<c10::IValue>{loss});
  return loss;
}

}  // namespace

bool fuses_entropy(const at::Tensor& logits, const at::Tensor& classes) {
  return device::kernels_built() && logits.is_cuda() && classes.device() == logits.device() &&
         logits.scalar_type() == at::kFloat && classes.scalar_type() == at::kLong &&
         logits.dim() == 2 && classes.dim() == 1 && classes.size(0) == logits.size(0);
}

at::Tensor fused_entropy(const at::Tensor& logits, const at::Tensor& classes,
                         const FusedEntropy& options) {
  if (at::GradMode::is_enabled() && logits.requires_grad())
    return apply_recorded(logits, classes, options);
  return reduced(losses_of(logits, classes, options, {}), options);
}

}  // namespace trainctl::stages
