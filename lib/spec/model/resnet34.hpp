#pragma once

#include "spec/model/resnet.hpp"

namespace trainctl::spec::model {

struct Resnet34 : Resnet {
  static constexpr auto kSummary =
      "ResNet-34 (He et al. 2015), as torchvision's: 21.8 million parameters for 1000 classes.";

  static void describe(config::Describe<Resnet34>& options) { options.include<Resnet>(); }
};

}  // namespace trainctl::spec::model
