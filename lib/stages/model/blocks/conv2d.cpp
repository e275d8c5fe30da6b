#include "stages/model/blocks/conv2d.hpp"

#include "base/error.hpp"

namespace trainctl::stages {

Conv2d make_conv2d(const Scope& scope, const Conv2dShape& shape) {
  ASSERT(shape.in % shape.groups == 0 && shape.out % shape.groups == 0);
  const std::int64_t in = shape.in / shape.groups;
  Conv2d layer;
  layer.stride = shape.stride;
  layer.padding = shape.padding.value_or((shape.kernel - 1) / 2 * shape.dilation);
  layer.dilation = shape.dilation;
  layer.groups = shape.groups;
  layer.weight =
      scope.parameter("weight", draw_weight({shape.out, in, shape.kernel, shape.kernel}));
  if (shape.bias == Bias::with) {
    layer.bias = scope.parameter("bias", draw_bias(shape.out, in * shape.kernel * shape.kernel));
  }
  return layer;
}

}  // namespace trainctl::stages
