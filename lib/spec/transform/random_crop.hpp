#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/padding.hpp"

namespace trainctl::spec::transform {

struct RandomCrop {
  static constexpr auto kSummary =
      "Pads the image, then crops it at a random place, as torchvision's RandomCrop.";

  config::OneOrMore<int> size;
  config::OneOrMore<int> padding{{0}};
  bool pad_if_needed = false;
  config::OneOrMore<int> fill{{0}};
  PaddingMode padding_mode = PaddingMode::constant;

  static void describe(config::Describe<RandomCrop>& options) {
    options
        .field("size", &RandomCrop::size,
               "Height and width of the crop, in pixels; one number for a square.")
        .required()
        .at_least(1)
        .at_most(65'535)
        .example("28");
    options
        .field("padding", &RandomCrop::padding,
               "Pixels added first: on each side, or [left and right, top and bottom], or [left, "
               "top, right, bottom].")
        .at_least(0)
        .at_most(65'535);
    options.field("pad_if_needed", &RandomCrop::pad_if_needed,
                  "Pads further where the image is smaller than the crop.");
    options
        .field("fill", &RandomCrop::fill,
               "Value of the added pixels; one for all channels, or one for each.")
        .at_least(0)
        .at_most(255);
    options.field("padding_mode", &RandomCrop::padding_mode,
                  "What is added: constant: fill; edge: the outermost pixel; reflect: the image "
                  "mirrored without its "
                  "outermost pixel; symmetric: mirrored with it.");
  }
};

}  // namespace trainctl::spec::transform
