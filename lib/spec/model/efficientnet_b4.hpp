#pragma once

#include "spec/model/efficientnet.hpp"

namespace trainctl::spec::model {

struct EfficientnetB4 : Efficientnet {
  static constexpr auto kSummary =
      "EfficientNet-B4 (Tan & Le 2019), as torchvision's: 19.3 million parameters, made for "
      "380x380.";

  EfficientnetB4() { dropout = 0.4; }

  static void describe(config::Describe<EfficientnetB4>& options) {
    options.include<Efficientnet>();
  }
};

}  // namespace trainctl::spec::model
