#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/interpolation.hpp"

#include <array>

namespace trainctl::spec::transform {

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
    options.field(
        "interpolation", &RandomResizedCrop::interpolation,
        "How a place between pixels is read; nearest: pixel floor(i * input / output), as "
        "torchvision's InterpolationMode.NEAREST on tensors.");
  }
};

}  // namespace trainctl::spec::transform
