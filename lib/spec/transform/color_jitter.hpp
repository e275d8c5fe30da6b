#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::transform {

struct ColorJitter {
  static constexpr auto kSummary =
      "Changes brightness, contrast, saturation and hue at random, in a random order, as "
      "torchvision's ColorJitter.";

  config::OneOrMore<double> brightness{{0}};
  config::OneOrMore<double> contrast{{0}};
  config::OneOrMore<double> saturation{{0}};
  config::OneOrMore<double> hue{{0}};

  static void describe(config::Describe<ColorJitter>& options) {
    options
        .field("brightness", &ColorJitter::brightness,
               "x: a factor from max(0, 1 - x) to 1 + x; or the smallest and largest factor.")
        .at_least(0)
        .at_most(1000)
        .example("0.4");
    options.field("contrast", &ColorJitter::contrast, "As brightness.")
        .at_least(0)
        .at_most(1000)
        .example("0.4");
    options.field("saturation", &ColorJitter::saturation, "As brightness.")
        .at_least(0)
        .at_most(1000)
        .example("[0.5, 1.5]");
    options
        .field("hue", &ColorJitter::hue,
               "x: a shift from -x to x, in turns of the colour circle; or the smallest and "
               "largest shift.")
        .at_least(-0.5)
        .at_most(0.5)
        .example("0.1");
  }
};

}  // namespace trainctl::spec::transform
