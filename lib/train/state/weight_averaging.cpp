#include "train/state/weight_averaging.hpp"

#include "base/error.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>

#include <algorithm>

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

std::optional<Averaging> averaging_of(const spec::Trainer& trainer) {
  if (trainer.ema)
    return Averaging{trainer.ema->decay,
                     {trainer.ema->every_n_steps},
                     trainer.ema->start_epoch,
                     trainer.ema->exponential_decay().warmup};
  if (trainer.swa) return Averaging{{}, trainer.swa->every_n_steps, trainer.swa->start_epoch};
  return std::nullopt;
}

WeightAverager::WeightAverager(const stage::Model& model, const Averaging& options,
                               std::int64_t steps_per_epoch)
    : options_(options),
      start_(options.start_epoch * steps_per_epoch),
      every_(options.every_n_steps.value_or(std::max<std::int64_t>(steps_per_epoch, 1))) {
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

bool WeightAverager::is_due(std::int64_t global_step) const {
  return global_step > start_ && (global_step - start_) % every_ == 0;
}

void WeightAverager::update(std::int64_t global_step) {
  if (!is_due(global_step)) return;
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

void WeightAverager::memorise(Memo& memo) {
  ASSERT(!swapped_in_);
  memo.value("updates", &updates_);
}

}  // namespace trainctl::train
