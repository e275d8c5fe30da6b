#include "stages/model/blocks/redraw.hpp"

#include <ATen/core/grad_mode.h>

#include <cmath>

namespace trainctl::stages {

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
