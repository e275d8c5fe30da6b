#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::batch_transform {

/// Options of the transforms that mix each image with another one.
struct Mixing {
  double alpha = 1;

  static void describe(auto& options) {
    options.field("alpha", &Mixing::alpha, {.above = 0, .at_most = 1000},
                  "Both parameters of the Beta distribution that the mixing ratio is drawn from.");
  }
};

struct Mixup : Mixing {
  static constexpr auto kSummary =
      "Blends each image, and its label, with another one of the batch, as torchvision's MixUp.";
};

struct Cutmix : Mixing {
  static constexpr auto kSummary =
      "Replaces a rectangle of each image by one of another image of the batch, and mixes the "
      "labels, as torchvision's CutMix.";
};

}  // namespace trainctl::spec::batch_transform
