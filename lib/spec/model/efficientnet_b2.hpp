#pragma once

#include "spec/model/efficientnet.hpp"

namespace trainctl::spec::model {

struct EfficientnetB2 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B2 (Tan & Le 2019), as torchvision's: 9.1 million parameters, made for "
      "260x260.";

  EfficientnetB2() { dropout = 0.3; }

  static void describe(config::Describe<EfficientnetB2>& options) {
    options.include<Efficientnet>();
  }
};

}  // namespace trainctl::spec::model
