#include "train/step/grad_scaler.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

namespace trainctl::train {
namespace {

constexpr double kFirstScale = 65536;
constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;  // steps

}  // namespace

GradScaler::GradScaler(at::Device device, Scaling scaling, AfterBad after_bad)
    : scaling_(scaling), after_bad_(after_bad) {
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
  if (after_bad_ == AfterBad::goes_on) found_inf_.zero_();
  if (gradients.empty()) return;
  const at::Tensor factor = scaling_ == Scaling::dynamic ? scale_.reciprocal() : scale_;
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, factor);
}

void GradScaler::update() {
  const at::NoGradGuard guard;
  at::Tensor in_all = skipped_.select(0, 0), in_a_row = skipped_.select(0, 1);
  in_all.add_(found_inf_.squeeze());
  in_a_row.add_(found_inf_.squeeze());
  if (after_bad_ == AfterBad::goes_on) in_a_row.mul_(found_inf_.squeeze());
  skipped_.select(0, 2).copy_(at::maximum(skipped_.select(0, 2), in_a_row));
  if (scaling_ == Scaling::none) return;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, kGrowth, kBackoff, kGrowthInterval);
}

double GradScaler::current_scale() const { return scale_.item<double>(); }
std::int64_t GradScaler::skipped() const { return skipped_[0].item<std::int64_t>(); }
std::int64_t GradScaler::most_skipped_in_a_row() const { return skipped_[2].item<std::int64_t>(); }

std::vector<stage::NamedTensor> GradScaler::state() const {
  return {{"scale", scale_},
          {"growth_tracker", growth_tracker_},
          {"found_inf", found_inf_},
          {"skipped", skipped_}};
}

}  // namespace trainctl::train
