#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::transform {

struct RandomHorizontalFlip {
  static constexpr auto kSummary =
      "Mirrors left and right with probability p, as torchvision's RandomHorizontalFlip.";

  double p = 0.5;

  static void describe(config::Describe<RandomHorizontalFlip>& options) {
    options.field("p", &RandomHorizontalFlip::p, "Probability.").at_least(0).at_most(1);
  }
};

}  // namespace trainctl::spec::transform
