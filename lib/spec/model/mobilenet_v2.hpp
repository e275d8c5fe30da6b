#pragma once

#include "spec/model/mobilenet.hpp"

namespace trainctl::spec::model {

struct MobilenetV2 : Mobilenet {
  static constexpr auto kSummary =
      "MobileNetV2 (Sandler et al. 2018), as torchvision's: inverted residuals, 3.5 million "
      "parameters.";

  static void describe(config::Describe<MobilenetV2>& options) { options.include<Mobilenet>(); }
};

}  // namespace trainctl::spec::model
