#pragma once

#include "config/schema/describe.hpp"

#include <vector>

namespace trainctl::spec::transform {

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
