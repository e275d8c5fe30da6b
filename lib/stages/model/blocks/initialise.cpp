#include "stages/model/blocks/initialise.hpp"

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

}  // namespace trainctl::stages
