#include "stages/model/stochastic_depth.hpp"

#include <ATen/ops/empty.h>

#include <vector>

namespace trainctl::stages {

at::Tensor stochastic_depth(const at::Tensor& x, double p, bool training) {
  if (!training || p == 0) return x;
  const double survival = 1 - p;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape.front() = x.size(0);
  const at::Tensor noise = at::empty(shape, x.options()).bernoulli_(survival);
  if (survival > 0) noise.div_(survival);
  return x * noise;
}

}  // namespace trainctl::stages
