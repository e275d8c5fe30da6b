#include "train/kept_buffers.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/where.h>

namespace trainctl::train {

KeptBuffers::KeptBuffers(const stage::Model& model) {
  for (const auto& [name, buffer] : model.buffers()) {
    buffers_.push_back(buffer);
    copies_.push_back(at::empty_like(buffer));
  }
}

void KeptBuffers::take() {
  const at::NoGradGuard guard;
  for (std::size_t i = 0; i < buffers_.size(); ++i) copies_[i].copy_(buffers_[i]);
}

void KeptBuffers::put_back_if(const at::Tensor& found_inf) {
  const at::NoGradGuard guard;
  if (found_inf.is_cpu() && found_inf.item<float>() == 0) return;
  const at::Tensor bad = found_inf.squeeze().ne(0);
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    buffers_[i].copy_(at::where(bad, copies_[i], buffers_[i]));
}

}  // namespace trainctl::train
