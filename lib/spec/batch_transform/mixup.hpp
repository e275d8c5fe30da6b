#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::batch_transform {

struct Mixup {
  static constexpr auto kSummary =
      "Blends each image, and its label, with another one of the batch, as torchvision's MixUp.";

  double alpha = 1;

  static void describe(config::Describe<Mixup>& options) {
    options
        .field("alpha", &Mixup::alpha,
               "Both parameters of the Beta distribution of an image's own share.")
        .above(0)
        .at_most(1000);
  }
};

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
