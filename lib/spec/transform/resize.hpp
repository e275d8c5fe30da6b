#pragma once

#include "config/schema/describe.hpp"
#include "spec/transform/resampling.hpp"

#include <optional>

namespace trainctl::spec::transform {

struct Resize {
  static constexpr auto kSummary =
      "Scales the image, as torchvision's Resize; bilinear is antialiased.";

  config::OneOrMore<int> size;
  std::optional<int> max_size;
  Interpolation interpolation = Interpolation::bilinear;

  static void describe(config::Describe<Resize>& options) {
    options
        .field("size", &Resize::size,
               "Length of the shorter side, which keeps the proportions; or [height, width] in "
               "pixels.")
        .required()
        .at_least(1)
        .at_most(65'535)
        .example("256");
    options
        .field("max_size", &Resize::max_size,
               "Most pixels of the longer side, where size is one number.")
        .at_least(1)
        .at_most(65'535)
        .example("512");
    options.field(
        "interpolation", &Resize::interpolation,
        "How a place between pixels is read; nearest: pixel floor(i * input / output), as "
        "torchvision's InterpolationMode.NEAREST on tensors.");
  }
};

}  // namespace trainctl::spec::transform
