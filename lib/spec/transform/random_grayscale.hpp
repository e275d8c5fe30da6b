#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::transform {

struct RandomGrayscale {
  static constexpr auto kSummary =
      "Turns the image grey with probability p, as torchvision's RandomGrayscale.";

  double p = 0.1;

  static void describe(config::Describe<RandomGrayscale>& options) {
    options.field("p", &RandomGrayscale::p, "Probability.").at_least(0).at_most(1);
  }
};

}  // namespace trainctl::spec::transform
