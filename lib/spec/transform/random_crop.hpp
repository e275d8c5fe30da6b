#pragma once

#include "config/describe.hpp"

namespace trainctl::spec::transform {

struct RandomCrop {
  static constexpr auto kSummary = "Pads with `fill`, then crops at a random place, as torchvision's RandomCrop.";

  int size = 0;
  int padding = 0;
  int fill = 0;

  static void describe(config::Describe<RandomCrop>& options) {
    options.field("size", &RandomCrop::size, "Height and width of the crop, in pixels.")
        .required()
        .at_least(1)
        .at_most(65'535)
        .example("28");
    options.field("padding", &RandomCrop::padding, "Pixels added on each side first.").at_least(0).at_most(65'535);
    options.field("fill", &RandomCrop::fill, "Value of the added pixels.").at_least(0).at_most(255);
  }
};

}  // namespace trainctl::spec::transform
