#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/interpolation.hpp"

#include <optional>

namespace trainctl::spec::transform {

struct TrivialAugmentWide {
  static constexpr auto kSummary =
      "One random operation of random strength, as torchvision's TrivialAugmentWide.";

  int num_magnitude_bins = 31;
  Interpolation interpolation = Interpolation::nearest;
  std::optional<config::OneOrMore<int>> fill;

  static void describe(config::Describe<TrivialAugmentWide>& options) {
    options
        .field("num_magnitude_bins", &TrivialAugmentWide::num_magnitude_bins,
               "Number of strengths.")
        .at_least(2)
        .at_most(10'000);
    options.field("interpolation", &TrivialAugmentWide::interpolation,
                  "How a place between pixels is read.");
    options
        .field("fill", &TrivialAugmentWide::fill,
               "Colour of pixels from outside: one value for all channels, or one for each.")
        .at_least(0)
        .at_most(255)
        .example("[124, 116, 104]");
  }
};

}  // namespace trainctl::spec::transform
