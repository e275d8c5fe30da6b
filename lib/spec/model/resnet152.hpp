#pragma once

#include "spec/model/resnet.hpp"

namespace trainctl::spec::model {

struct Resnet152 : Resnet {
  static constexpr auto kSummary =
      "ResNet-152 (He et al. 2015), as torchvision's: 60.2 million parameters for 1000 classes.";

  static void describe(config::Describe<Resnet152>& options) { options.include<Resnet>(); }
};

}  // namespace trainctl::spec::model
