#include "train/parallel/flat_tensors.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>

#include <map>
#include <string>
#include <utility>

namespace trainctl::train {
namespace {

using Tensors = std::vector<at::Tensor>;

/// In order of first appearance within a type, so that all ranks agree.
std::vector<Tensors> split(const Tensors& tensors, std::size_t cap_bytes) {
  struct Open {
    std::size_t index = 0;
    std::size_t bytes = 0;
  };
  std::vector<Tensors> parts;
  std::map<std::pair<std::string, at::ScalarType>, Open> open;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() == 0) continue;
    const auto [place, is_new] =
        open.try_emplace({tensor.device().str(), tensor.scalar_type()}, Open{parts.size(), 0});
    Open& part = place->second;
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

}  // namespace trainctl::train
