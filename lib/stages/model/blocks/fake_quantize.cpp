#include "stages/model/blocks/fake_quantize.hpp"

#include "stage/checkpoint.hpp"
#include "stages/model/blocks/layers.hpp"

#include <ATen/ops/fake_quantize_per_channel_affine.h>
#include <ATen/ops/fake_quantize_per_tensor_affine.h>
#include <ATen/ops/full.h>
#include <ATen/ops/fused_moving_avg_obs_fake_quant.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <limits>

namespace trainctl::stages {
namespace {

/// The tensors have PyTorch's names.
FakeQuantize make(const Scope& scope, std::int64_t channels, bool is_weight) {
  if (!scope.trains_for_int8()) return {};
  constexpr double kUnseen = std::numeric_limits<double>::infinity();
  const Scope range = scope / "activation_post_process";
  FakeQuantize rounding;
  rounding.min_val = range.buffer("min_val", at::full({channels}, kUnseen, at::kFloat));
  rounding.max_val = range.buffer("max_val", at::full({channels}, -kUnseen, at::kFloat));
  rounding.scale = scope.buffer("scale", at::ones({channels}, at::kFloat));
  rounding.zero_point = scope.buffer("zero_point", at::zeros({channels}, at::kInt));
  rounding.is_weight = is_weight;
  rounding.mode = scope.mode();
  return rounding;
}

}  // namespace

at::Tensor FakeQuantize::operator()(const at::Tensor& x) const {
  if (!is_on()) return x;
  constexpr double kAveraging = 0.01;
  constexpr std::int64_t kMost = 127;
  const std::int64_t least = is_weight ? -128 : 0;
  // A trace records `to` even if it does nothing, and the conversion to int8 reads traces.
  const at::Tensor numbers = x.scalar_type() == at::kFloat ? x : x.to(at::kFloat);
  if (*mode == stage::RunMode::train && !stage::is_recomputing()) {
    at::Tensor min = min_val, max = max_val, scales = scale, zero_points = zero_point;
    const at::Tensor on = at::ones({1}, scale.options().dtype(at::kLong));
    return at::fused_moving_avg_obs_fake_quant(numbers, on, on, min, max, scales, zero_points,
                                               kAveraging, least, kMost, is_weight ? 0 : -1,
                                               is_weight, is_weight);
  }
  return is_weight
             ? at::fake_quantize_per_channel_affine(numbers, scale, zero_point, 0, least, kMost)
             : at::fake_quantize_per_tensor_affine(numbers, scale, zero_point, least, kMost);
}

FakeQuantize make_weight_quantize(const Scope& scope, std::int64_t channels) {
  return make(scope / "weight_fake_quant", channels, /*is_weight=*/true);
}

FakeQuantize make_activation_quantize(const Scope& scope) {
  return make(scope / "activation_post_process", 1, /*is_weight=*/false);
}

}  // namespace trainctl::stages
