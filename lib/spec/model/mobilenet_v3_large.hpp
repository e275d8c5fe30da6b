#pragma once

#include "spec/model/mobilenet.hpp"

namespace trainctl::spec::model {

struct MobilenetV3Large : Mobilenet {
  static constexpr auto kSummary =
      "MobileNetV3-Large (Howard et al. 2019), as torchvision's: 5.5 million parameters.";

  static void describe(config::Describe<MobilenetV3Large>& options) {
    options.include<Mobilenet>();
  }
};

}  // namespace trainctl::spec::model
