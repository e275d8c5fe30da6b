#include "train/grad_scaler.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

namespace trainctl::train {
namespace {

constexpr double kFirstScale = 65536;
constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;  // steps

}  // namespace

GradScaler::GradScaler(at::Device device, Scaling scaling) : scaling_(scaling) {
  const auto single = at::TensorOptions(at::kFloat).device(device);
  scale_ = at::full({1}, scaling == Scaling::dynamic ? kFirstScale : 1, single);
  growth_tracker_ = at::zeros({1}, single.dtype(at::kInt));
  found_inf_ = at::zeros({1}, single);
  skipped_ = at::zeros({2}, single);
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return scaling_ == Scaling::dynamic ? loss * scale_.squeeze() : loss;
}

void GradScaler::unscale(at::TensorList gradients) {
  const at::NoGradGuard guard;
  found_inf_.zero_();
  if (gradients.empty()) return;
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, scale_.reciprocal());
}

void GradScaler::update() {
  const at::NoGradGuard guard;
  skipped_.add_(found_inf_);
  skipped_.select(0, 1).mul_(found_inf_.squeeze());
  if (scaling_ == Scaling::none) return;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, kGrowth, kBackoff, kGrowthInterval);
}

double GradScaler::current_scale() const { return scale_.item<double>(); }
std::int64_t GradScaler::skipped() const { return skipped_[0].item<std::int64_t>(); }
std::int64_t GradScaler::skipped_in_a_row() const { return skipped_[1].item<std::int64_t>(); }

}  // namespace trainctl::train
