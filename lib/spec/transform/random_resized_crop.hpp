#pragma once

#include "config/describe.hpp"

#include <array>

namespace trainctl::spec::transform {

struct RandomResizedCrop {
  static constexpr auto kSummary =
      "Cuts out a random part and scales it, bilinear and antialiased, as torchvision's "
      "RandomResizedCrop.";

  config::OneOrMore<int> size;
  std::array<double, 2> scale{0.08, 1.0};
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};

  static void describe(config::Describe<RandomResizedCrop>& options) {
    options
        .field("size", &RandomResizedCrop::size,
               "Height and width in pixels; one number for a square.")
        .required()
        .at_least(1)
        .at_most(65'535)
        .example("224");
    options
        .field("scale", &RandomResizedCrop::scale,
               "Least and most of the image's area that the part covers.")
        .above(0);
    options
        .field("ratio", &RandomResizedCrop::ratio,
               "Least and most of the part's width over its height.")
        .above(0);
  }
};

}  // namespace trainctl::spec::transform
