#pragma once

#include "spec/layer/pool2d.hpp"

namespace trainctl::spec::layer {

struct MaxPool2d : Pool2d {
  static constexpr auto kSummary = "Highest value of each square window, as torch's MaxPool2d.";

  static void describe(config::Describe<MaxPool2d>& options) { options.include<Pool2d>(); }
};

}  // namespace trainctl::spec::layer
