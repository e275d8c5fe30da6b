#include "train/parallel/sharded_optimizer.hpp"

#include "base/clock.hpp"
#include "spec/experiment/distributed.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>

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

namespace {

constexpr std::size_t kUnderWay = 8;  // number of concurrent broadcasts

std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Returns all values as a 1-d view in memory order, which is the same on all ranks.
at::Tensor in_place(const at::Tensor& parameter) {
  return parameter.detach().as_strided({parameter.numel()}, {1}, parameter.storage_offset());
}

bool goes_in_place(const at::Tensor& parameter, std::size_t cap_bytes) {
  return parameter.nbytes() > sent_in_place_above(parameter.device(), cap_bytes) &&
         parameter.is_non_overlapping_and_dense();
}

}  // namespace

std::size_t sent_in_place_above(at::Device device, std::size_t cap_bytes) {
  constexpr std::size_t kLarge = std::size_t{256} << 10;
  return device.is_cpu() ? std::min(kLarge, cap_bytes) : cap_bytes;
}

ShardedOptimizer::ShardedOptimizer(std::unique_ptr<stage::Optimizer> inner,
                                   std::vector<stage::NamedTensor> parameters,
                                   dist::Communicator& communicator, std::size_t cap_bytes)
    : inner_(std::move(inner)), parameters_(std::move(parameters)), communicator_(communicator) {
  const int world_size = communicator.rank_info().world_size;
  if (world_size == 1) return;
  const std::vector<int> owners = owners_of(parameters_, world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<at::Tensor> small;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& parameter = parameters_[i].tensor;
      if (owners[i] != rank || parameter.numel() == 0) continue;
      bytes_ += static_cast<std::int64_t>(parameter.nbytes());
      if (goes_in_place(parameter, cap_bytes)) {
        add_piece(rank).flat = in_place(parameter);
      } else {
        small.push_back(parameter.detach());
      }
    }
    add_small(rank, small, cap_bytes);
  }
  place_small(cap_bytes);
}

ShardedOptimizer::Piece& ShardedOptimizer::add_piece(int owner) {
  Piece& piece = pieces_.emplace_back();
  piece.owner = owner;
  return piece;
}

/// Packs tensors of one dtype and device into pieces of up to the cap; a larger tensor gets its
/// own.
void ShardedOptimizer::add_small(int owner, const std::vector<at::Tensor>& tensors,
                                 std::size_t cap_bytes) {
  std::size_t bytes = 0;
  bool opens = true;
  for (const at::Tensor& tensor : tensors) {
    const bool fits = !opens && bytes + tensor.nbytes() <= cap_bytes &&
                      tensor.options().type_equal(pieces_.back().tensors.front().options());
    if (!fits) {
      add_piece(owner);
      bytes = 0;
    }
    opens = false;
    pieces_.back().tensors.push_back(tensor);
    bytes += tensor.nbytes();
  }
}

/// Lays the pieces out in one buffer, and starts over at its beginning when it is full.
void ShardedOptimizer::place_small(std::size_t cap_bytes) {
  const auto bytes_of = [](const Piece& piece) {
    std::size_t bytes = 0;
    for (const at::Tensor& tensor : piece.tensors) bytes += tensor.nbytes();
    return aligned(bytes);
  };
  std::size_t all = 0, largest = 0;
  for (const Piece& piece : pieces_) {
    all += bytes_of(piece);
    largest = std::max(largest, bytes_of(piece));
  }
  if (all == 0) return;
  const std::size_t size = std::max(std::min(all, cap_bytes), largest);
  buffer_ = at::empty({static_cast<std::int64_t>(size)},
                      parameters_.front().tensor.options().requires_grad(false).dtype(at::kByte));
  std::size_t used = 0;
  for (Piece& piece : pieces_) {
    if (piece.tensors.empty()) continue;
    piece.reuses = used + bytes_of(piece) > size;
    if (piece.reuses) used = 0;
    place(piece, static_cast<std::int64_t>(used));
    used += bytes_of(piece);
  }
}

void ShardedOptimizer::place(Piece& piece, std::int64_t offset) const {
  std::int64_t elements = 0;
  for (const at::Tensor& tensor : piece.tensors) elements += tensor.numel();
  const at::Tensor& first = piece.tensors.front();
  piece.flat = buffer_.narrow(0, offset, elements * static_cast<std::int64_t>(first.itemsize()))
                   .view(first.scalar_type());
  std::int64_t at = 0;
  for (const at::Tensor& tensor : piece.tensors) {
    piece.views.push_back(piece.flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
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

/// A broadcast sends n-1 copies; the statistics attribute 1/n of them to each rank.
void ShardedOptimizer::share() {
  if (pieces_.empty()) return;
  const double begun = steady_clock().now();
  exchange();
  const int world_size = communicator_.rank_info().world_size;
  ++stats_.steps;
  stats_.payload_bytes += bytes_;
  stats_.wire_bytes += bytes_ * (world_size - 1) / world_size;
  if (pieces_.front().flat.is_cpu()) stats_.exposed_s += steady_clock().now() - begun;
}

/// Limits the number of concurrent broadcasts, because each needs memory for communication.
void ShardedOptimizer::exchange() const {
  const at::NoGradGuard guard;
  const int own = communicator_.rank_info().rank;
  std::deque<std::pair<const Piece*, dist::Pending>> in_progress;
  const auto wait_for = [&](std::size_t left) {
    for (; in_progress.size() > left; in_progress.pop_front()) {
      const Piece& piece = *in_progress.front().first;
      in_progress.front().second();
      if (piece.owner != own && !piece.views.empty())
        at::_foreach_copy_(piece.tensors, piece.views);
    }
  };
  for (const Piece& piece : pieces_) {
    wait_for(piece.reuses ? 0 : kUnderWay - 1);
    if (piece.owner == own && !piece.views.empty()) at::_foreach_copy_(piece.views, piece.tensors);
    in_progress.emplace_back(&piece,
                             communicator_.start_broadcast(
                                 piece.flat, piece.owner,
                                 fmt::format("broadcast of the weights of rank {}", piece.owner)));
  }
  wait_for(0);
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
