#pragma once

#include "spec/model/mobilenet.hpp"

namespace trainctl::spec::model {

struct MobilenetV3Small : Mobilenet {
  static constexpr auto kSummary =
      "MobileNetV3-Small (Howard et al. 2019), as torchvision's: 2.5 million parameters.";

  static void describe(config::Describe<MobilenetV3Small>& options) {
    options.include<Mobilenet>();
  }
};

}  // namespace trainctl::spec::model
