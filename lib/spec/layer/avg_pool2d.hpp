#pragma once

#include "spec/layer/pool2d.hpp"

namespace trainctl::spec::layer {

struct AvgPool2d : Pool2d {
  static constexpr auto kSummary = "Mean value of each square window, as torch's AvgPool2d.";

  static void describe(config::Describe<AvgPool2d>& options) { options.include<Pool2d>(); }
};

}  // namespace trainctl::spec::layer
