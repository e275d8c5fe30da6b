#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::transform {

struct RandomVerticalFlip {
  static constexpr auto kSummary =
      "Mirrors top and bottom with probability p, as torchvision's RandomVerticalFlip.";

  double p = 0.5;

  static void describe(config::Describe<RandomVerticalFlip>& options) {
    options.field("p", &RandomVerticalFlip::p, "Probability.").at_least(0).at_most(1);
  }
};

}  // namespace trainctl::spec::transform
