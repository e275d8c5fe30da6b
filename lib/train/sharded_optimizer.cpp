#include "train/sharded_optimizer.hpp"

#include "spec/owners.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>
#include <fmt/format.h>

#include <cstdint>
#include <utility>

namespace trainctl::train {

std::vector<int> owners_of(const std::vector<stage::NamedTensor>& parameters, int world_size) {
  std::vector<std::int64_t> bytes;
  for (const stage::NamedTensor& parameter : parameters)
    bytes.push_back(static_cast<std::int64_t>(parameter.tensor.nbytes()));
  return spec::owners_of(bytes, world_size);
}

std::vector<bool> owned_by(const std::vector<int>& owners, int rank) {
  std::vector<bool> owned;
  for (const int owner : owners) owned.push_back(owner == rank);
  return owned;
}

ShardedOptimizer::ShardedOptimizer(std::unique_ptr<stage::Optimizer> inner,
                                   std::vector<stage::NamedTensor> parameters,
                                   dist::Communicator& communicator, std::size_t cap_bytes)
    : inner_(std::move(inner)), parameters_(std::move(parameters)), communicator_(communicator) {
  const int world_size = communicator.place().world_size;
  const std::vector<int> owners = owners_of(parameters_, world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<at::Tensor> share;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (owners[i] == rank) share.push_back(parameters_[i].tensor);
    }
    of_ranks_.emplace_back(share, cap_bytes);
  }
}

void ShardedOptimizer::step() {
  inner_->step();
  share();
}

void ShardedOptimizer::step_unless(const at::Tensor& found_inf) {
  inner_->step_unless(found_inf);
  share();
}

/// All are on their way before the first is waited for.
void ShardedOptimizer::share() {
  if (of_ranks_.size() == 1) return;
  const int own = communicator_.place().rank;
  std::vector<std::unique_ptr<dist::Pending>> under_way;
  for (int rank = 0; rank < static_cast<int>(of_ranks_.size()); ++rank) {
    const FlatTensors& share = of_ranks_[static_cast<std::size_t>(rank)];
    for (std::size_t part = 0; part < share.size(); ++part) {
      if (rank == own) share.gather(part);
      under_way.push_back(communicator_.start_broadcast(
          share.flat(part), rank, fmt::format("broadcast of the weights of rank {}", rank)));
    }
  }
  std::size_t next = 0;
  for (int rank = 0; rank < static_cast<int>(of_ranks_.size()); ++rank) {
    const FlatTensors& share = of_ranks_[static_cast<std::size_t>(rank)];
    for (std::size_t part = 0; part < share.size(); ++part) {
      under_way[next++]->wait();
      if (rank != own) share.scatter(part);
    }
  }
}

void ShardedOptimizer::zero_grad() {
  const at::NoGradGuard guard;
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (!gradients.empty()) at::_foreach_zero_(gradients);
}

}  // namespace trainctl::train
