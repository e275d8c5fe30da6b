#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/interpolation.hpp"

#include <optional>

namespace trainctl::spec::transform {

struct RandAugment {
  static constexpr auto kSummary =
      "Some random operations of one strength, as torchvision's RandAugment.";

  int num_ops = 2;
  int magnitude = 9;
  int num_magnitude_bins = 31;
  Interpolation interpolation = Interpolation::nearest;
  std::optional<config::OneOrMore<int>> fill;

  static void describe(config::Describe<RandAugment>& options) {
    options
        .field("num_ops", &RandAugment::num_ops, "Operations on each image, one after the other.")
        .at_least(0)
        .at_most(100);
    options
        .field("magnitude", &RandAugment::magnitude,
               "Strength of all of them, below num_magnitude_bins.")
        .at_least(0);
    options.field("num_magnitude_bins", &RandAugment::num_magnitude_bins, "Number of strengths.")
        .at_least(2)
        .at_most(10'000);
    options.field("interpolation", &RandAugment::interpolation,
                  "How a place between pixels is read.");
    options
        .field("fill", &RandAugment::fill,
               "Colour of pixels from outside: one value for all channels, or one for each.")
        .at_least(0)
        .at_most(255)
        .example("[124, 116, 104]");
  }
};

}  // namespace trainctl::spec::transform
