#pragma once

#include "spec/model/efficientnet.hpp"

namespace trainctl::spec::model {

struct EfficientnetB0 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B0 (Tan & Le 2019), as torchvision's: 5.3 million parameters, made for "
      "224x224.";

  static void describe(config::Describe<EfficientnetB0>& options) {
    options.include<Efficientnet>();
  }
};

}  // namespace trainctl::spec::model
