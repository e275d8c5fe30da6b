#include "train/state/weight_averaging.hpp"

#include "train/parallel/replicas.hpp"
#include "train/state/weights.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <fmt/format.h>

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
    at::_foreach_lerp_(averages_, weights_, share);
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
