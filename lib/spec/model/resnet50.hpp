#pragma once

#include "spec/model/resnet.hpp"

namespace trainctl::spec::model {

struct Resnet50 : Resnet {
  static constexpr auto kSummary =
      "ResNet-50 (He et al. 2015), as torchvision's: 25.6 million parameters for 1000 classes.";

  static void describe(config::Describe<Resnet50>& options) { options.include<Resnet>(); }
};

}  // namespace trainctl::spec::model
