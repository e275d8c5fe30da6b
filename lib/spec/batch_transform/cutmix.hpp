#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::batch_transform {

struct Cutmix {
  static constexpr auto kSummary =
      "Puts a rectangle of another image of the batch into each, and its label, as torchvision's "
      "CutMix.";

  double alpha = 1;

  static void describe(config::Describe<Cutmix>& options) {
    options
        .field("alpha", &Cutmix::alpha,
               "Both parameters of the Beta distribution of an image's own share.")
        .above(0)
        .at_most(1000);
  }
};

}  // namespace trainctl::spec::batch_transform
