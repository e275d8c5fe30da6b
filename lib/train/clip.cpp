#include "train/clip.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

namespace trainctl::train {

at::Tensor norm_of(at::TensorList tensors) {
  const at::NoGradGuard guard;
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(tensors)));
}

Clipper::Clipper(double bound, spec::ClipAlgorithm algorithm)
    : bound_(bound), algorithm_(algorithm) {}

void Clipper::operator()(at::TensorList gradients) const {
  const at::NoGradGuard guard;
  if (gradients.empty()) return;
  if (algorithm_ == spec::ClipAlgorithm::value) {
    at::_foreach_clamp_min_(gradients, -bound_);
    at::_foreach_clamp_max_(gradients, bound_);
    return;
  }
  const at::Tensor factor = (bound_ / (norm_of(gradients) + 1e-6)).clamp_max(1.0);
  at::_foreach_mul_(gradients, factor);
}

}  // namespace trainctl::train
