#pragma once

#include "spec/model/resnet.hpp"

namespace trainctl::spec::model {

struct Resnet101 : Resnet {
  static constexpr auto kSummary =
      "ResNet-101 (He et al. 2015), as torchvision's: 44.5 million parameters for 1000 classes.";

  static void describe(config::Describe<Resnet101>& options) { options.include<Resnet>(); }
};

}  // namespace trainctl::spec::model
