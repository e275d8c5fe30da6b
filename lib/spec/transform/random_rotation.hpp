#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/interpolation.hpp"

#include <array>
#include <optional>

namespace trainctl::spec::transform {

struct RandomRotation {
  static constexpr auto kSummary =
      "Turns the image by a random angle, as torchvision's RandomRotation.";

  config::OneOrMore<double> degrees;
  Interpolation interpolation = Interpolation::nearest;
  bool expand = false;
  std::optional<std::array<double, 2>> center;
  config::OneOrMore<int> fill{{0}};

  static void describe(config::Describe<RandomRotation>& options) {
    options
        .field("degrees", &RandomRotation::degrees,
               "Angles, counter-clockwise: x for -x to x; or the smallest and largest.")
        .required()
        .at_least(-3600)
        .at_most(3600)
        .example("15");
    options.field("interpolation", &RandomRotation::interpolation,
                  "How a place between pixels is read.");
    options.field("expand", &RandomRotation::expand, "Grows the image so that nothing is cut off.");
    options
        .field("center", &RandomRotation::center,
               "The point that stays: [x, y] from the upper left; absent: the middle.")
        .at_least(-1e6)
        .at_most(1e6)
        .example("[16, 16]");
    options
        .field("fill", &RandomRotation::fill,
               "Colour of pixels from outside: one value for all channels, or one for each.")
        .at_least(0)
        .at_most(255);
  }
};

}  // namespace trainctl::spec::transform
