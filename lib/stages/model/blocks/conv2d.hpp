#pragma once

#include "stages/model/blocks/scope.hpp"

#include <cstdint>
#include <optional>

namespace trainctl::stages {

/// A convolution with a square kernel, in the words of nn.Conv2d.
struct Conv2dShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  std::optional<std::int64_t> padding = {};  // absent: what keeps the size at stride 1
  Bias bias = Bias::without;
};

/// Draws the weight, and the bias if there is one, as nn.Conv2d does.
Conv2d make_conv2d(const Scope& scope, const Conv2dShape& shape);

}  // namespace trainctl::stages
