#include "train/parallel/data_parallel.hpp"

#include "base/error.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace trainctl::train {
namespace {

/// Gives `replica` copies of the model's weights and buffers. A copy of a weight is not a leaf: its
/// gradient flows into the model's weight.
void replicate(const stage::Model& model, const stage::Model& replica, at::Device device) {
  namespace autograd = torch::autograd::impl;
  const std::vector<stage::NamedTensor> parameters = replica.parameters();
  std::size_t i = 0;
  for (const auto& [name, source] : model.parameters()) {
    at::Tensor target = parameters[i++].tensor;
    const at::Tensor copy =
        source.to(device, source.scalar_type(), /*non_blocking=*/true, /*copy=*/true);
    target.detach_();
    target.set_data(copy.detach());
    if (copy.grad_fn()) autograd::set_gradient_edge(target, autograd::gradient_edge(copy));
  }
  const at::NoGradGuard guard;
  const std::vector<stage::NamedTensor> buffers = replica.buffers();
  i = 0;
  for (const auto& [name, source] : model.buffers())
    buffers[i++].tensor.copy_(source, /*non_blocking=*/true);
}

}  // namespace

DataParallelModel::DataParallelModel(std::unique_ptr<stage::Model> model,
                                     std::vector<std::unique_ptr<stage::Model>> replicas,
                                     std::vector<at::Device> devices)
    : model_(std::move(model)), replicas_(std::move(replicas)), devices_(std::move(devices)) {
  ASSERT(devices_.size() == replicas_.size() + 1);
}

/// Each loop launches its work on all devices before the next one, so that no device waits for the
/// forward pass of another.
at::Tensor DataParallelModel::forward(const at::Tensor& inputs) {
  std::vector<at::Tensor> parts = inputs.chunk(static_cast<std::int64_t>(devices_.size()));
  for (std::size_t i = 1; i < parts.size(); ++i) {
    replicate(*model_, *replicas_[i - 1], devices_[i]);
    parts[i] = parts[i].to(devices_[i], /*non_blocking=*/true);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const c10::DeviceGuard guard(devices_[i]);
    stage::Model& model = i == 0 ? *model_ : *replicas_[i - 1];
    parts[i] = model.forward(parts[i]);
  }
  for (at::Tensor& part : parts) part = part.to(devices_.front(), /*non_blocking=*/true);
  return at::cat(parts);
}

void DataParallelModel::set_mode(stage::RunMode mode) {
  model_->set_mode(mode);
  for (const auto& replica : replicas_) replica->set_mode(mode);
}

}  // namespace trainctl::train
