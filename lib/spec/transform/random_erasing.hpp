#pragma once

#include "config/schema/describe.hpp"

#include <array>

namespace trainctl::spec::transform {

struct RandomErasing {
  static constexpr auto kSummary =
      "Paints over a random rectangle with probability p, as torchvision's RandomErasing.";

  double p = 0.5;
  std::array<double, 2> scale{0.02, 0.33};
  std::array<double, 2> ratio{0.3, 3.3};
  config::OneOrMore<int> value{{0}};

  static void describe(config::Describe<RandomErasing>& options) {
    options.field("p", &RandomErasing::p, "Probability.").at_least(0).at_most(1);
    options.field("scale", &RandomErasing::scale, "Smallest and largest share of the image's area.")
        .at_least(0)
        .at_most(1);
    options.field("ratio", &RandomErasing::ratio, "Smallest and largest height over width.")
        .at_least(1e-3)
        .at_most(1e3);
    options
        .field("value", &RandomErasing::value,
               "Colour of the rectangle, of uint8 pixels: one value for all channels, or one for "
               "each.")
        .at_least(0)
        .at_most(255);
  }
};

}  // namespace trainctl::spec::transform
