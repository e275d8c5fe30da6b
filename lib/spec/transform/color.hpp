#pragma once

#include "config/schema/describe.hpp"

#include <vector>

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

struct RandomGrayscale {
  static constexpr auto kSummary =
      "Turns the image grey with probability p, as torchvision's RandomGrayscale.";

  double p = 0.1;

  static void describe(config::Describe<RandomGrayscale>& options) {
    options.field("p", &RandomGrayscale::p, "Probability.").at_least(0).at_most(1);
  }
};

struct Normalize {
  static constexpr auto kSummary =
      "(x / 255 - mean) / std for each channel, as torchvision's ToTensor and Normalize.";

  std::vector<double> mean;
  std::vector<double> std;

  static void describe(config::Describe<Normalize>& options) {
    options.field("mean", &Normalize::mean, "Mean of each channel, of pixels in [0, 1].")
        .required()
        .not_empty()
        .at_least(-1e6)
        .at_most(1e6)
        .example("[0.1307]");
    options.field("std", &Normalize::std, "Standard deviation of each channel.")
        .required()
        .not_empty()
        .at_least(1e-6)
        .at_most(1e6)
        .example("[0.3081]");
  }
};

}  // namespace trainctl::spec::transform
