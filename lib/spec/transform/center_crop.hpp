#pragma once

#include "config/schema/describe.hpp"

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

}  // namespace trainctl::spec::transform
