#include "train/step/gradients.hpp"

#include "base/error.hpp"
#include "device/host_read.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <vector>

namespace trainctl::train {
namespace {

at::Tensor norm_in(std::optional<at::ScalarType> type, at::TensorList tensors) {
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(tensors, 2, type)));
}

}  // namespace

/// Squares of large values overflow in float32 but not in float64. A GPU always uses float64,
/// because checking would synchronize; a CPU, which would copy, only after an overflow.
at::Tensor norm_of(at::TensorList tensors, HostReads reads) {
  const at::NoGradGuard guard;
  if (tensors.empty() || reads == HostReads::never || !tensors.front().is_cpu())
    return norm_in(at::kDouble, tensors);
  at::Tensor norm = norm_in(std::nullopt, tensors);
  const bool overflows = !std::isfinite(device::value_of<double>(norm, "norm of the gradient"));
  return overflows ? norm_in(at::kDouble, tensors) : norm;
}

Clipper::Clipper(double bound, spec::ClipAlgorithm algorithm, HostReads reads)
    : bound_(bound), algorithm_(algorithm), reads_(reads) {}

at::Tensor Clipper::operator()(at::TensorList gradients) const {
  const at::NoGradGuard guard;
  if (gradients.empty()) return {};
  if (algorithm_ == spec::ClipAlgorithm::value) {
    at::_foreach_clamp_min_(gradients, -bound_);
    at::_foreach_clamp_max_(gradients, bound_);
    return {};
  }
  at::Tensor norm = norm_of(gradients, reads_);
  const at::Tensor factor = (bound_ / (norm + 1e-6)).clamp_max(1.0);
  at::_foreach_mul_(gradients, factor.to(gradients.front().scalar_type()));
  return norm;
}

namespace {

double read(const at::Tensor& scalar) {
  return device::value_of<double>(scalar, "state of the gradient scaler");
}

constexpr double kFirstScale = 65536;
constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;  // steps

}  // namespace

GradScaler::GradScaler(at::Device device, Scaling scaling, AfterNonFinite after_non_finite)
    : scaling_(scaling), after_non_finite_(after_non_finite) {
  const auto single = at::TensorOptions(at::kFloat).device(device);
  scale_ = at::full({1}, scaling == Scaling::dynamic ? kFirstScale : 1, single);
  growth_tracker_ = at::zeros({1}, single.dtype(at::kInt));
  found_inf_ = at::zeros({1}, single);
  skipped_ = at::zeros({3}, single);
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return scaling_ == Scaling::dynamic ? loss * scale_.squeeze() : loss;
}

void GradScaler::unscale(at::TensorList gradients) {
  const at::NoGradGuard guard;
  if (scales()) return divide_and_check(gradients);
  std::vector<at::Tensor> filled;  // an empty tensor has no largest magnitude
  std::ranges::copy_if(gradients, std::back_inserter(filled),
                       [](const at::Tensor& gradient) { return gradient.numel() > 0; });
  if (filled.empty()) return divide_and_check({});
  // One number per gradient takes a read; dividing all by 1 would also write them. The largest
  // magnitude is not finite if one of them is not.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  check(at::stack(at::_foreach_norm(filled, kInfinity)));
}

void GradScaler::check(const at::Tensor& magnitudes) {
  const at::NoGradGuard guard;
  ASSERT(!scales());
  divide_and_check(magnitudes);
}

void GradScaler::divide_and_check(at::TensorList tensors) {
  if (!stops_after_non_finite()) found_inf_.zero_();
  if (tensors.empty()) return;
  const at::Tensor factor = scales() ? scale_.reciprocal() : scale_;
  at::_amp_foreach_non_finite_check_and_unscale_(tensors, found_inf_, factor);
}

void GradScaler::update() {
  const at::NoGradGuard guard;
  at::Tensor in_all = skipped_.select(0, 0), in_a_row = skipped_.select(0, 1);
  in_all.add_(found_inf_.squeeze());
  in_a_row.add_(found_inf_.squeeze());
  if (after_non_finite_ == AfterNonFinite::continues) in_a_row.mul_(found_inf_.squeeze());
  skipped_.select(0, 2).copy_(at::maximum(skipped_.select(0, 2), in_a_row));
  if (scaling_ == Scaling::none) return;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, kGrowth, kBackoff, kGrowthInterval);
}

double GradScaler::current_scale() const { return read(scale_.select(0, 0)); }
std::int64_t GradScaler::skipped() const {
  return static_cast<std::int64_t>(read(skipped_.select(0, 0)));
}
std::int64_t GradScaler::most_skipped_in_a_row() const {
  return static_cast<std::int64_t>(read(longest_skipped_series()));
}

std::vector<stage::NamedTensor> GradScaler::state() const {
  return {{"scale", scale_},
          {"growth_tracker", growth_tracker_},
          {"found_inf", found_inf_},
          {"skipped", skipped_}};
}

}  // namespace trainctl::train
