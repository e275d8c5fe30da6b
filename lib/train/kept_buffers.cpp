#include "train/kept_buffers.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/where.h>

namespace trainctl::train {

namespace {

void put_back(const at::Tensor& bad, const std::vector<at::Tensor>& copies,
              const std::vector<at::Tensor>& buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i)
    buffers[i].copy_(at::where(bad, copies[i], buffers[i]));
}

}  // namespace

// Lists of one type are what the foreach kernels take in one go.
KeptBuffers::KeptBuffers(const stage::Model& model) {
  for (const auto& [name, buffer] : model.buffers()) {
    const bool counts = buffer.scalar_type() != at::kFloat;
    (counts ? others_ : floats_).push_back(buffer);
    (counts ? other_copies_ : float_copies_).push_back(at::empty_like(buffer));
  }
}

void KeptBuffers::take() {
  const at::NoGradGuard guard;
  if (!floats_.empty()) at::_foreach_copy_(float_copies_, floats_);
  if (!others_.empty()) at::_foreach_copy_(other_copies_, others_);
}

void KeptBuffers::put_back_if(const at::Tensor& found_inf) {
  const at::NoGradGuard guard;
  if (found_inf.is_cpu() && found_inf.item<float>() == 0) return;
  const at::Tensor bad = found_inf.squeeze().ne(0);
  put_back(bad, float_copies_, floats_);
  put_back(bad, other_copies_, others_);
}

}  // namespace trainctl::train
