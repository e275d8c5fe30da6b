#pragma once

#include "spec/model/efficientnet.hpp"

namespace trainctl::spec::model {

struct EfficientnetB1 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B1 (Tan & Le 2019), as torchvision's: 7.8 million parameters, made for "
      "240x240.";

  static void describe(config::Describe<EfficientnetB1>& options) {
    options.include<Efficientnet>();
  }
};

}  // namespace trainctl::spec::model
