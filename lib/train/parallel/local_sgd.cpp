#include "train/parallel/local_sgd.hpp"

#include "dist/sync_meter.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>

#include <map>

namespace trainctl::train {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Groups by dtype and keeps the order within each, so that all ranks get the same parts.
std::vector<Tensors> split(const Tensors& tensors, std::size_t cap_bytes) {
  struct OpenPart {
    std::size_t index = 0;
    std::size_t bytes = 0;
  };
  std::vector<Tensors> parts;
  std::map<std::pair<std::string, at::ScalarType>, OpenPart> open;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const auto [place, is_new] =
        open.try_emplace({tensor.device().str(), tensor.scalar_type()}, OpenPart{parts.size(), 0});
    OpenPart& part = place->second;
    const bool is_full = part.bytes > 0 && part.bytes + tensor.nbytes() > cap_bytes;
    if (is_full) part = {parts.size(), 0};
    if (is_new || is_full) parts.emplace_back();
    parts[part.index].push_back(tensor.detach());
    part.bytes += tensor.nbytes();
  }
  return parts;
}

}  // namespace

FlatTensors::FlatTensors(const Tensors& tensors, std::size_t cap_bytes) {
  for (Tensors& some : split(tensors, cap_bytes)) {
    std::int64_t elements = 0;
    for (const at::Tensor& tensor : some) elements += tensor.numel();
    Part part{at::empty({elements}, some.front().options()), std::move(some), {}};
    std::int64_t at = 0;
    for (const at::Tensor& tensor : part.tensors) {
      part.views.push_back(part.flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
      at += tensor.numel();
    }
    parts_.push_back(std::move(part));
  }
}

void FlatTensors::gather(std::size_t part) const {
  const at::NoGradGuard guard;
  at::_foreach_copy_(parts_[part].views, parts_[part].tensors);
}

void FlatTensors::scatter(std::size_t part) const {
  const at::NoGradGuard guard;
  at::_foreach_copy_(parts_[part].tensors, parts_[part].views);
}

namespace {

std::vector<at::Tensor> averaged_of(const stage::Model& model) {
  std::vector<at::Tensor> all;
  for (const auto& [name, parameter] : model.parameters()) {
    if (parameter.requires_grad()) all.push_back(parameter);
  }
  for (const auto& [name, buffer] : model.buffers()) {
    if (buffer.is_floating_point()) all.push_back(buffer);
  }
  return all;
}

}  // namespace

LocalSgdObserver::LocalSgdObserver(const Session& session, const Options& options, Phases& phases,
                                   std::int64_t steps_per_epoch)
    : communicator_(session.communicator),
      options_(options),
      phases_(phases),
      steps_per_epoch_(steps_per_epoch),
      averaged_(averaged_of(session.model), session.buckets.cap_bytes) {
  for (const auto& [name, buffer] : session.model.buffers()) {
    if (!buffer.is_floating_point()) counted_.push_back(buffer);
  }
}

void LocalSgdObserver::on_step_end(LoopState& state) {
  const PhaseScope scope(phases_, Part::allreduce);
  const Position& at = state.position;
  const bool ends = at.step_in_epoch == at.steps_in_epoch || at_step_limit(options_, state);
  const bool averages =
      options_.averaging && averages_step(*options_.averaging, steps_per_epoch_, at.global_step);
  const bool needs_alike = ends || averages || saves_after_step(options_, state);
  state.ranks_alike = ++steps_ >= options_.sync_every || needs_alike;
  if (!state.ranks_alike) return;
  steps_ = 0;
  average();
}

void LocalSgdObserver::average() {
  const int world_size = communicator_.rank_info().world_size;
  if (world_size == 1) return;
  const double begun = steady_clock().now();
  const at::NoGradGuard guard;
  std::int64_t bytes = 0;
  std::vector<dist::Pending> in_progress;
  for (std::size_t part = 0; part < averaged_.size(); ++part) {
    averaged_.gather(part);
    in_progress.push_back(
        communicator_.start_sum(averaged_.flat(part).div_(world_size), "average of the weights"));
    bytes += static_cast<std::int64_t>(averaged_.flat(part).nbytes());
  }
  for (std::size_t part = 0; part < averaged_.size(); ++part) {
    in_progress[part]();
    averaged_.scatter(part);
  }
  communicator_.broadcast_coalesced(counted_, "broadcast of the integer buffers");
  const bool on_cpu = averaged_.size() > 0 && averaged_.flat(0).is_cpu();
  ++stats_.steps;
  stats_.payload_bytes += bytes;
  stats_.wire_bytes += dist::ring_bytes(bytes, world_size);
  if (on_cpu) stats_.exposed_s += steady_clock().now() - begun;
}

}  // namespace trainctl::train
