#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/resampling.hpp"

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

struct RandomPerspective {
  static constexpr auto kSummary =
      "Tilts the image at random with probability p, as torchvision's RandomPerspective.";

  double distortion_scale = 0.5;
  double p = 0.5;
  Interpolation interpolation = Interpolation::bilinear;
  config::OneOrMore<int> fill{{0}};

  static void describe(config::Describe<RandomPerspective>& options) {
    options
        .field("distortion_scale", &RandomPerspective::distortion_scale,
               "How far a corner may move, as a share of half the image.")
        .at_least(0)
        .at_most(1);
    options.field("p", &RandomPerspective::p, "Probability.").at_least(0).at_most(1);
    options.field("interpolation", &RandomPerspective::interpolation,
                  "How a place between pixels is read.");
    options
        .field("fill", &RandomPerspective::fill,
               "Colour of pixels from outside: one value for all channels, or one for each.")
        .at_least(0)
        .at_most(255);
  }
};

struct RandomHorizontalFlip {
  static constexpr auto kSummary =
      "Mirrors left and right with probability p, as torchvision's RandomHorizontalFlip.";

  double p = 0.5;

  static void describe(config::Describe<RandomHorizontalFlip>& options) {
    options.field("p", &RandomHorizontalFlip::p, "Probability.").at_least(0).at_most(1);
  }
};

struct RandomVerticalFlip {
  static constexpr auto kSummary =
      "Mirrors top and bottom with probability p, as torchvision's RandomVerticalFlip.";

  double p = 0.5;

  static void describe(config::Describe<RandomVerticalFlip>& options) {
    options.field("p", &RandomVerticalFlip::p, "Probability.").at_least(0).at_most(1);
  }
};

}  // namespace trainctl::spec::transform
