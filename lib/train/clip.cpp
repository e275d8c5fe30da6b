#include "train/clip.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <utility>

namespace trainctl::train {

Clipper::Clipper(std::vector<at::Tensor> parameters, double bound, spec::ClipAlgorithm algorithm)
    : parameters_(std::move(parameters)), bound_(bound), algorithm_(algorithm) {}

void Clipper::operator()() {
  const at::NoGradGuard guard;
  gradients_.clear();
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) gradients_.push_back(parameter.grad());
  }
  if (gradients_.empty()) return;
  if (algorithm_ == spec::ClipAlgorithm::value) {
    at::_foreach_clamp_min_(gradients_, -bound_);
    at::_foreach_clamp_max_(gradients_, bound_);
    return;
  }
  const at::Tensor total = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients_)));
  const at::Tensor factor = (bound_ / (total + 1e-6)).clamp_max(1.0);
  at::_foreach_mul_(gradients_, factor);
}

}  // namespace trainctl::train
