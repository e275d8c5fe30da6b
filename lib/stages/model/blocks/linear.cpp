#include "stages/model/blocks/linear.hpp"

namespace trainctl::stages {

Linear make_linear(const Scope& scope, std::int64_t in, std::int64_t out, Bias bias) {
  Linear layer;
  layer.weight = scope.parameter("weight", draw_weight({out, in}));
  if (bias == Bias::with) layer.bias = scope.parameter("bias", draw_bias(out, in));
  return layer;
}

}  // namespace trainctl::stages
