#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/resampling.hpp"

#include <array>

namespace trainctl::spec::transform {

struct CenterCrop {
  static constexpr auto kSummary =
      "Cuts out the middle, as torchvision's CenterCrop; a smaller image gets a black margin.";

  config::OneOrMore<int> size;

  static void describe(config::Describe<CenterCrop>& options) {
    options.field("size", &CenterCrop::size, "Height and width in pixels; one number for a square.")
        .required()
        .at_least(1)
        .at_most(65'535)
        .example("224");
  }
};

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

struct RandomResizedCrop {
  static constexpr auto kSummary =
      "Cuts out a random part and scales it, as torchvision's RandomResizedCrop; bilinear is "
      "antialiased.";

  config::OneOrMore<int> size;
  std::array<double, 2> scale{0.08, 1.0};
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};
  Interpolation interpolation = Interpolation::bilinear;

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
        .above(0)
        .at_most(1);
    options
        .field("ratio", &RandomResizedCrop::ratio,
               "Least and most of the part's width over its height.")
        .at_least(1e-3)
        .at_most(1e3);
    options.field("interpolation", &RandomResizedCrop::interpolation,
                  "How a place between pixels is read; nearest: pixel floor(i * input / output), "
                  "as torchvision's InterpolationMode.NEAREST on tensors.");
  }
};

}  // namespace trainctl::spec::transform
