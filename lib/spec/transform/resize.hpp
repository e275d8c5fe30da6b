#pragma once

#include "config/describe.hpp"

#include <optional>

namespace trainctl::spec::transform {

struct Resize {
  static constexpr auto kSummary =
      "Scales the image, bilinear and antialiased, as torchvision's Resize.";

  config::OneOrMore<int> size;
  std::optional<int> max_size;

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
  }
};

}  // namespace trainctl::spec::transform
