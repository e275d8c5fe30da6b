#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

struct Conv2d {
  static constexpr auto kSummary = "Convolution with a square kernel, as torch's Conv2d.";

  std::int64_t out_channels = 0;
  std::int64_t kernel_size = 0;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;

  [[nodiscard]] LayerStep after(const LayerInput& input) const;

  static void describe(config::Describe<Conv2d>& options);  // conv2d.cpp
};

}  // namespace trainctl::spec::layer
