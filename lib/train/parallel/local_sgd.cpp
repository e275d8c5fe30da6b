#include "train/parallel/local_sgd.hpp"

#include "base/clock.hpp"
#include "dist/sync_meter.hpp"

#include <ATen/core/grad_mode.h>

#include <memory>
#include <utility>

namespace trainctl::train {
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

LocalSgd::LocalSgd(const stage::Model& model, dist::Communicator& communicator,
                   const Options& options)
    : communicator_(communicator),
      every_(options.every),
      averaged_(averaged_of(model), options.cap_bytes) {
  for (stage::NamedTensor& buffer : model.buffers()) {
    if (!buffer.tensor.is_floating_point()) counted_.push_back(std::move(buffer));
  }
}

bool LocalSgd::after_step(Need need) {
  if (++steps_ < every_ && need == Need::none) return false;
  steps_ = 0;
  average();
  return true;
}

void LocalSgd::average() {
  const int world_size = communicator_.place().world_size;
  if (world_size == 1) return;
  const double begun = steady_clock().now();
  exchange();
  std::int64_t bytes = 0;
  for (std::size_t part = 0; part < averaged_.size(); ++part)
    bytes += static_cast<std::int64_t>(averaged_.flat(part).nbytes());
  const bool on_cpu = averaged_.size() > 0 && averaged_.flat(0).is_cpu();
  ++stats_.steps;
  stats_.payload_bytes += bytes;
  stats_.wire_bytes += dist::ring_bytes(bytes, world_size);
  if (on_cpu) stats_.exposed_s += steady_clock().now() - begun;
}

void LocalSgd::exchange() const {
  const int world_size = communicator_.place().world_size;
  const at::NoGradGuard guard;
  std::vector<std::unique_ptr<dist::Pending>> under_way;
  for (std::size_t part = 0; part < averaged_.size(); ++part) {
    averaged_.gather(part);
    under_way.push_back(
        communicator_.start_sum(averaged_.flat(part).div_(world_size), "average of the weights"));
  }
  for (std::size_t part = 0; part < averaged_.size(); ++part) {
    under_way[part]->wait();
    averaged_.scatter(part);
  }
  for (const auto& [name, buffer] : counted_)
    communicator_.broadcast(buffer, "broadcast of buffer '" + name + "'");
}

}  // namespace trainctl::train
