#include "train/state/weight_averaging.hpp"

#include "base/error.hpp"
#include "device/device.hpp"
#include "device/host_read.hpp"
#include "device/kernels.hpp"
#include "train/parallel/replicas.hpp"
#include "train/state/weights.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

namespace trainctl::train {
namespace {

void exchange(std::vector<at::Tensor>& some, std::vector<at::Tensor>& others) {
  for (std::size_t i = 0; i < some.size(); ++i) {
    const at::Tensor kept = some[i].clone();
    some[i].copy_(others[i]);
    others[i].copy_(kept);
  }
}

/// Returns whether the kernel can update the average; the two have the same layout.
bool has_kernel(const at::Tensor& weight, const at::Tensor& average) {
  const auto aligned = [](const at::Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % device::kPackBytes == 0;
  };
  return device::kernels_built() && weight.is_cuda() && weight.scalar_type() == at::kFloat &&
         weight.is_non_overlapping_and_dense() && weight.strides() == average.strides() &&
         aligned(weight) && aligned(average);
}

}  // namespace

WeightAverager::WeightAverager(const stage::Model& model, const Averaging& options,
                               std::int64_t steps_per_epoch)
    : options_(options), steps_per_epoch_(steps_per_epoch) {
  const auto add = [this](const std::vector<stage::NamedTensor>& tensors) {
    for (const auto& [name, tensor] : tensors) {
      const bool averaged = tensor.is_floating_point();
      (averaged ? weights_ : others_).push_back(tensor.detach());
      named_.push_back({name, tensor.detach().clone()});
      (averaged ? averages_ : copies_).push_back(named_.back().tensor);
    }
  };
  add(model.parameters());
  add(model.buffers());
  make_chunks();
}

/// Neither weights nor averages move during a run, so one table in GPU memory serves all updates.
void WeightAverager::make_chunks() {
  std::vector<device::AverageChunk> chunks;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!has_kernel(weights_[i], averages_[i])) {
      plain_weights_.push_back(weights_[i]);
      plain_averages_.push_back(averages_[i]);
      continue;
    }
    auto* average = averages_[i].mutable_data_ptr<float>();
    const auto* weight = weights_[i].const_data_ptr<float>();
    for (std::int64_t first = 0; first < weights_[i].numel(); first += device::kChunk)
      chunks.push_back(
          {average + first, weight + first, std::min(device::kChunk, weights_[i].numel() - first)});
  }
  if (chunks.empty()) return;
  const auto bytes = static_cast<std::int64_t>(chunks.size() * sizeof(device::AverageChunk));
  chunks_ = device::copy_to(at::from_blob(chunks.data(), {bytes}, at::kByte), weights_[0].device(),
                            "table of the weights to average");
}

void WeightAverager::move_averages(double share) {
  if (!plain_averages_.empty()) at::_foreach_lerp_(plain_averages_, plain_weights_, share);
  if (!chunks_.defined()) return;
  device::AverageWeights job;
  job.chunks = reinterpret_cast<const device::AverageChunk*>(chunks_.const_data_ptr());
  job.count = chunks_.numel() / static_cast<std::int64_t>(sizeof(device::AverageChunk));
  job.share = static_cast<float>(share);
  const char* failure =
      device::launch_average_weights(job, device::current_stream(chunks_.device()));
  if (failure != nullptr) device::throw_kernel_error();
  ENSURE(resource, failure == nullptr,
         "cannot run the kernel that averages weights: {}\nhint: run 'trainctl doctor'", failure);
}

void WeightAverager::update(std::int64_t global_step) {
  if (!averages_step(options_, steps_per_epoch_, global_step)) return;
  const at::NoGradGuard guard;
  ++updates_;
  const double share =
      options_.decay ? 1 - spec::decay_of_update({*options_.decay, options_.decay_warmup}, updates_)
                     : 1 / static_cast<double>(updates_);
  if (updates_ == 1) {
    at::_foreach_copy_(averages_, weights_);
  } else {
    move_averages(share);
  }
  if (!copies_.empty()) at::_foreach_copy_(copies_, others_);
}

void WeightAverager::swap() {
  if (updates_ == 0) return;
  const at::NoGradGuard guard;
  exchange(weights_, averages_);
  exchange(others_, copies_);
  swapped_in_ = !swapped_in_;
}

std::vector<stage::NamedTensor> WeightAverager::state() const {
  ASSERT(!swapped_in_);
  if (updates_ == 0) return {};
  return named_;
}

void WeightAverager::serialize(StateArchive& archive) {
  ASSERT(!swapped_in_);
  archive.value("updates", &updates_);
}

/// The model keeps the average as the result of the run.
void WeightAveraging::on_run_end(LoopState& /*state*/) {
  averager_.swap();
  broadcast_buffers(session_);
}

/// Averaged buffers differ between ranks like the buffers themselves, because each rank sees other
/// samples.
std::vector<StateTensor> WeightAveraging::tensors() const {
  std::set<std::string> buffers;
  for (const auto& [name, tensor] : session_.model.buffers()) buffers.insert(name);
  std::vector<StateTensor> all;
  for (const auto& [name, tensor] : averager_.state())
    all.push_back({fmt::format("{}/{}", kKey, name), tensor, buffers.contains(name)});
  return all;
}

std::uint64_t WeightAveraging::expected_bytes() const {
  return averager_.state().empty() ? stored_bytes(weights_of(session_.model)) : 0;
}

}  // namespace trainctl::train
