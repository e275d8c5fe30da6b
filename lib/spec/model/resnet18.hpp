#pragma once

#include "spec/model/resnet.hpp"

namespace trainctl::spec::model {

struct Resnet18 : Resnet {
  static constexpr auto kSummary =
      "ResNet-18 (He et al. 2015), as torchvision's: 11.7 million parameters for 1000 classes.";

  static void describe(config::Describe<Resnet18>& options) { options.include<Resnet>(); }
};

}  // namespace trainctl::spec::model
