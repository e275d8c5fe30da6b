#include "stages/model/blocks/init.hpp"

#include <ATen/core/grad_mode.h>

#include <cmath>

namespace trainctl::stages {
namespace {

constexpr std::int64_t kLinear = 2;  // dimensions of a weight
constexpr std::int64_t kConvolution = 4;

void draw_convolution(const at::Tensor& weight) {
  const auto fan_out = static_cast<double>(weight.size(0) * weight.size(2) * weight.size(3));
  weight.normal_(0, std::sqrt(2.0) / std::sqrt(fan_out));
}

void draw_linear(const at::Tensor& weight, LinearDraw linear) {
  if (linear == LinearDraw::normal) weight.normal_(0, 0.01);
  if (linear == LinearDraw::uniform) {
    const double bound = 1 / std::sqrt(static_cast<double>(weight.size(0)));
    weight.uniform_(-bound, bound);
  }
}

}  // namespace

void initialise(const std::vector<stage::NamedTensor>& parameters, LinearDraw linear) {
  const at::NoGradGuard guard;
  std::int64_t dimensions = 0;  // of the weight that a bias belongs to
  for (const auto& [name, tensor] : parameters) {
    if (name.ends_with(".weight")) {
      dimensions = tensor.dim();
      if (dimensions == kConvolution) draw_convolution(tensor);
      if (dimensions == kLinear) draw_linear(tensor, linear);
    } else if (dimensions != kLinear || linear != LinearDraw::keep) {
      tensor.zero_();
    }
  }
}

void redraw_xavier_uniform(const at::Tensor& weight) {
  const at::NoGradGuard guard;
  const double std = std::sqrt(2.0 / static_cast<double>(weight.size(1) + weight.size(0)));
  const double bound = std::sqrt(3.0) * std;
  weight.uniform_(-bound, bound);
}

void redraw_trunc_normal(const at::Tensor& tensor, double std) {
  constexpr double kBound = 2;
  const at::NoGradGuard guard;
  const auto below = [&](double x) { return (1 + std::erf(x / std / std::sqrt(2.0))) / 2; };
  tensor.uniform_(2 * below(-kBound) - 1, 2 * below(kBound) - 1);
  tensor.erfinv_().mul_(std * std::sqrt(2.0)).clamp_(-kBound, kBound);
}

void redraw_normal(const at::Tensor& tensor, double std) {
  const at::NoGradGuard guard;
  tensor.normal_(0, std);
}

}  // namespace trainctl::stages
