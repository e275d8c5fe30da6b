#include "train/step/clip.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <optional>

namespace trainctl::train {
namespace {

at::Tensor norm_in(std::optional<at::ScalarType> type, at::TensorList tensors) {
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(tensors, 2, type)));
}

}  // namespace

/// The squares of large values overflow in float32, not in float64. A GPU takes that at once, since
/// it would have to be waited for; a CPU, which makes a copy for it, where there is need.
at::Tensor norm_of(at::TensorList tensors) {
  const at::NoGradGuard guard;
  if (tensors.empty() || !tensors.front().is_cpu()) return norm_in(at::kDouble, tensors);
  at::Tensor norm = norm_in(std::nullopt, tensors);
  return std::isfinite(norm.item<double>()) ? norm : norm_in(at::kDouble, tensors);
}

Clipper::Clipper(double bound, spec::ClipAlgorithm algorithm)
    : bound_(bound), algorithm_(algorithm) {}

at::Tensor Clipper::operator()(at::TensorList gradients) const {
  const at::NoGradGuard guard;
  if (gradients.empty()) return {};
  if (algorithm_ == spec::ClipAlgorithm::value) {
    at::_foreach_clamp_min_(gradients, -bound_);
    at::_foreach_clamp_max_(gradients, bound_);
    return {};
  }
  at::Tensor norm = norm_of(gradients);
  const at::Tensor factor = (bound_ / (norm + 1e-6)).clamp_max(1.0);
  at::_foreach_mul_(gradients, factor.to(gradients.front().scalar_type()));
  return norm;
}

}  // namespace trainctl::train
