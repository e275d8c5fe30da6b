#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/interpolation.hpp"

#include <array>
#include <optional>

namespace trainctl::spec::transform {

struct RandomAffine {
  static constexpr auto kSummary =
      "Turns, moves, scales and shears the image at random, as torchvision's RandomAffine.";

  config::OneOrMore<double> degrees;
  std::array<double, 2> translate{0, 0};
  std::array<double, 2> scale{1, 1};
  config::OneOrMore<double> shear{{0}};
  Interpolation interpolation = Interpolation::nearest;
  config::OneOrMore<int> fill{{0}};
  std::optional<std::array<double, 2>> center;

  static void describe(config::Describe<RandomAffine>& options) {
    options
        .field("degrees", &RandomAffine::degrees,
               "Angles, clockwise: x for -x to x; or the smallest and largest.")
        .required()
        .at_least(-3600)
        .at_most(3600)
        .example("15");
    options
        .field("translate", &RandomAffine::translate,
               "Farthest move to each side, as shares of the image's width and height.")
        .at_least(0)
        .at_most(1);
    options.field("scale", &RandomAffine::scale, "Smallest and largest scale.")
        .at_least(1e-3)
        .at_most(1e3);
    options
        .field(
            "shear", &RandomAffine::shear,
            "Angles: x for -x to x; [least, most] along x; or [x least, x most, y least, y most].")
        .above(-90)
        .below(90);
    options.field("interpolation", &RandomAffine::interpolation,
                  "How a place between pixels is read.");
    options
        .field("fill", &RandomAffine::fill,
               "Colour of pixels from outside: one value for all channels, or one for each.")
        .at_least(0)
        .at_most(255);
    options
        .field("center", &RandomAffine::center,
               "The point that stays: [x, y] from the upper left; absent: the middle.")
        .at_least(-1e6)
        .at_most(1e6)
        .example("[16, 16]");
  }
};

}  // namespace trainctl::spec::transform
