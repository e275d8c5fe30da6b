#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/interpolation.hpp"

namespace trainctl::spec::transform {

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

}  // namespace trainctl::spec::transform
