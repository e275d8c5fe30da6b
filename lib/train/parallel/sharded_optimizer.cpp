#include "train/parallel/sharded_optimizer.hpp"

#include "base/clock.hpp"
#include "spec/experiment/distributed.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

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

constexpr std::size_t kUnderWay = 8;  // number of concurrent collectives
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kLarge = std::size_t{256} << 10;  // bytes that are broadcast in place

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t packed_bytes(const std::vector<at::Tensor>& tensors) {
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += aligned(tensor.nbytes());
  return bytes;
}

bool can_be_cut(const at::Tensor& part) { return part.dim() == 1 && part.is_contiguous(); }

/// Takes parts of up to `most` bytes from the stream; at least one, which is cut if it can be.
std::vector<at::Tensor> take(std::deque<at::Tensor>& stream, std::size_t most) {
  std::vector<at::Tensor> taken;
  std::size_t left = most;
  while (!stream.empty()) {
    at::Tensor& next = stream.front();
    const auto fit = static_cast<std::int64_t>(left / next.itemsize());
    if (next.numel() > fit && can_be_cut(next) && fit > 0) {
      taken.push_back(next.narrow(0, 0, fit));
      next = next.narrow(0, fit, next.numel() - fit);
      break;
    }
    if (next.numel() > fit && !taken.empty()) break;
    taken.push_back(std::move(next));
    stream.pop_front();
    left -= std::min(left, aligned(taken.back().nbytes()));
  }
  return taken;
}

}  // namespace

ShardedOptimizer::ShardedOptimizer(std::unique_ptr<stage::Optimizer> inner,
                                   std::vector<stage::NamedTensor> parameters,
                                   dist::Communicator& communicator, const Sharing& sharing)
    : inner_(std::move(inner)), parameters_(std::move(parameters)), communicator_(communicator) {
  const auto world_size = static_cast<std::size_t>(communicator.rank_info().world_size);
  if (world_size == 1) return;
  const std::size_t cap_bytes = sharing.cap_bytes;
  const bool on_cpu = parameters_.front().tensor.is_cpu();
  const Exchange exchange =
      sharing.exchange.value_or(on_cpu ? Exchange::broadcasts : Exchange::all_gathers);
  std::vector<Stream> left = streams();
  const auto is_left = [](const Stream& stream) { return !stream.empty(); };
  const auto count = [&] { return static_cast<std::size_t>(std::ranges::count_if(left, is_left)); };
  const std::size_t share = std::max(cap_bytes / world_size / kAlignment, std::size_t{1});
  while (exchange == Exchange::all_gathers && count() > 0 && 2 * count() >= world_size) {
    std::vector<std::vector<at::Tensor>> parts;
    for (Stream& stream : left) parts.push_back(take(stream, share * kAlignment));
    add_packed(std::nullopt, std::move(parts));
  }
  add_large(left, cap_bytes);
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    while (!left[rank].empty()) {
      std::vector<std::vector<at::Tensor>> parts(world_size);
      parts[rank] = take(left[rank], cap_bytes);
      add_packed(static_cast<int>(rank), std::move(parts));
    }
  }
  place_packed(cap_bytes);
}

/// Returns what each rank sends: the same on all ranks.
std::vector<ShardedOptimizer::Stream> ShardedOptimizer::streams() const {
  const int world_size = communicator_.rank_info().world_size;
  const std::vector<int> owners = owners_of(parameters_, world_size);
  std::vector<Stream> all(static_cast<std::size_t>(world_size));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor parameter = parameters_[i].tensor.detach();
    if (parameter.numel() == 0) continue;
    const bool is_dense = parameter.is_non_overlapping_and_dense();
    all[static_cast<std::size_t>(owners[i])].push_back(
        is_dense ? parameter.as_strided({parameter.numel()}, {1}, parameter.storage_offset())
                 : parameter);
  }
  return all;
}

/// Adds a broadcast for each large part.
void ShardedOptimizer::add_large(std::vector<Stream>& streams, std::size_t cap_bytes) {
  for (std::size_t rank = 0; rank < streams.size(); ++rank) {
    std::erase_if(streams[rank], [&](const at::Tensor& part) {
      if (part.nbytes() <= std::min(kLarge, cap_bytes) || !can_be_cut(part)) return false;
      add_packed(static_cast<int>(rank), {});
      pieces_.back().flat = part;
      return true;
    });
  }
}

void ShardedOptimizer::add_packed(std::optional<int> root,
                                  std::vector<std::vector<at::Tensor>> packed) {
  Piece& piece = pieces_.emplace_back();
  piece.root = root;
  piece.what = root ? fmt::format("broadcast of the weights of rank {}", *root)
                    : "all-gather of the weights";
  piece.packed = std::move(packed);
}

/// Lays the packed pieces out in one buffer, and starts over at its beginning when it is full.
void ShardedOptimizer::place_packed(std::size_t cap_bytes) {
  const auto bytes_of = [](const Piece& piece) {
    std::size_t all = 0, largest = 0;
    for (const auto& tensors : piece.packed) {
      all += packed_bytes(tensors);
      largest = std::max(largest, packed_bytes(tensors));
    }
    return piece.root ? all : largest * piece.packed.size();
  };
  std::size_t all = 0, largest = 0;
  for (const Piece& piece : pieces_) {
    all += bytes_of(piece);
    largest = std::max(largest, bytes_of(piece));
  }
  if (all == 0) return;
  const std::size_t size = std::max(std::min(all, cap_bytes), largest);
  const at::Tensor buffer =
      at::empty({static_cast<std::int64_t>(size)},
                parameters_.front().tensor.options().requires_grad(false).dtype(at::kByte));
  std::size_t used = 0;
  for (Piece& piece : pieces_) {
    const std::size_t bytes = bytes_of(piece);
    if (bytes == 0) continue;
    piece.reuses = used + bytes > size;
    if (piece.reuses) used = 0;
    piece.flat =
        buffer.narrow(0, static_cast<std::int64_t>(used), static_cast<std::int64_t>(bytes));
    place(piece);
    used += bytes;
  }
}

/// In an all-gather, every rank has an equal part of the piece.
void ShardedOptimizer::place(Piece& piece) const {
  const auto own = static_cast<std::size_t>(communicator_.rank_info().rank);
  const std::int64_t part =
      piece.root ? 0 : piece.flat.numel() / static_cast<std::int64_t>(piece.packed.size());
  if (!piece.root) piece.mine = piece.flat.narrow(0, static_cast<std::int64_t>(own) * part, part);
  for (std::size_t rank = 0; rank < piece.packed.size(); ++rank) {
    std::int64_t at = static_cast<std::int64_t>(rank) * part;
    for (const at::Tensor& tensor : piece.packed[rank]) {
      (rank == own ? piece.sent : piece.received).push_back(tensor);
      (rank == own ? piece.sent_views : piece.received_views)
          .push_back(piece.flat.narrow(0, at, static_cast<std::int64_t>(tensor.nbytes()))
                         .view(tensor.scalar_type())
                         .view(tensor.sizes()));
      at += static_cast<std::int64_t>(aligned(tensor.nbytes()));
    }
  }
  piece.packed.clear();
}

void ShardedOptimizer::step() {
  inner_->step();
  share();
}

void ShardedOptimizer::step_unless(const at::Tensor& found_inf) {
  inner_->step_unless(found_inf);
  share();
}

void ShardedOptimizer::share() {
  if (pieces_.empty()) return;
  const double begun = steady_clock().now();
  exchange();
  count_repeated();
  if (pieces_.front().flat.is_cpu()) stats_.exposed_s += steady_clock().now() - begun;
}

/// A broadcast sends n-1 copies; the statistics attribute 1/n of them to each rank. A rank sends as
/// much in an all-gather, whose padding does not count.
void ShardedOptimizer::count_repeated() {
  std::int64_t bytes = 0;
  for (const stage::NamedTensor& parameter : parameters_)
    bytes += static_cast<std::int64_t>(parameter.tensor.nbytes());
  const int world_size = communicator_.rank_info().world_size;
  ++stats_.steps;
  stats_.payload_bytes += bytes;
  stats_.wire_bytes += bytes * (world_size - 1) / world_size;
}

/// Limits the number of concurrent collectives, because each needs memory for communication.
void ShardedOptimizer::exchange() const {
  const at::NoGradGuard guard;
  std::deque<std::pair<const Piece*, dist::Pending>> in_progress;
  const auto wait_for = [&](std::size_t left) {
    for (; in_progress.size() > left; in_progress.pop_front()) {
      const Piece& piece = *in_progress.front().first;
      in_progress.front().second();
      if (!piece.received.empty()) at::_foreach_copy_(piece.received, piece.received_views);
    }
  };
  for (const Piece& piece : pieces_) {
    wait_for(piece.reuses ? 0 : kUnderWay - 1);
    if (!piece.sent.empty()) at::_foreach_copy_(piece.sent_views, piece.sent);
    in_progress.emplace_back(
        &piece, piece.root ? communicator_.start_broadcast(piece.flat, *piece.root, piece.what)
                           : communicator_.start_all_gather(piece.flat, piece.mine, piece.what));
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
