#include "stage/tensor_backup.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/where.h>

#include <algorithm>

namespace trainctl::stage {
namespace {

bool follows(const at::Tensor& scalar, const at::Tensor& last) {
  return scalar.dim() == 0 && last.dim() <= 1 && last.is_contiguous() &&
         scalar.scalar_type() == last.scalar_type() && scalar.is_alias_of(last) &&
         scalar.storage_offset() == last.storage_offset() + last.numel();
}

/// Views scalars that are adjacent in memory, such as the step counts of all parameters, as one
/// tensor: a kernel for each scalar would cost as much as a kernel for a matrix.
std::vector<at::Tensor> joined(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : tensors) {
    if (!all.empty() && follows(tensor, all.back())) {
      at::Tensor& last = all.back();
      last = at::as_strided(last, {last.numel() + 1}, {1}, last.storage_offset());
    } else {
      all.push_back(tensor);
    }
  }
  return all;
}

}  // namespace

KeptTensors::KeptTensors(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard guard;
  for (const at::Tensor& tensor : joined(tensors)) {
    auto place = std::ranges::find_if(types_, [&](const OfOneType& type) {
      return type.live.front().scalar_type() == tensor.scalar_type();
    });
    if (place == types_.end()) place = types_.emplace(place);
    place->live.push_back(tensor);
    place->copies.push_back(at::empty_like(tensor));
  }
}

void KeptTensors::take() {
  const at::NoGradGuard guard;
  for (OfOneType& type : types_) at::_foreach_copy_(type.copies, type.live);
}

void KeptTensors::put_back_where(const at::Tensor& bad) {
  const at::NoGradGuard guard;
  for (OfOneType& type : types_) {
    for (std::size_t i = 0; i < type.live.size(); ++i)
      at::where_out(type.live[i], bad, type.copies[i], type.live[i]);
  }
}

}  // namespace trainctl::stage
