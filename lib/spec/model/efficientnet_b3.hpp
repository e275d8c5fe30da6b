#pragma once

#include "spec/model/efficientnet.hpp"

namespace trainctl::spec::model {

struct EfficientnetB3 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B3 (Tan & Le 2019), as torchvision's: 12.2 million parameters, made for "
      "300x300.";

  EfficientnetB3() { dropout = 0.3; }

  static void describe(config::Describe<EfficientnetB3>& options) {
    options.include<Efficientnet>();
  }
};

}  // namespace trainctl::spec::model
