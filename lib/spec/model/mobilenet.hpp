#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

namespace trainctl::spec::model {

/// The options that MobileNetV2 and V3 share.
struct Mobilenet {
  double width_mult = 1;
  double dropout = 0.2;

  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::images; }
  [[nodiscard]] static std::vector<Refusal> refusals(const ModelInput& input) {
    return refuse_small(input, 5);
  }

  static void describe(config::Describe<Mobilenet>& options) {
    options
        .field("width_mult", &Mobilenet::width_mult,
               "Scales the channels of every layer, rounded to multiples of 8.")
        .above(0)
        .at_most(16)
        .example("0.5");
    options
        .field("dropout", &Mobilenet::dropout,
               "Probability of dropping a feature in front of the last linear layer.")
        .at_least(0)
        .below(1);
  }
};

struct MobilenetV2 : Mobilenet {
  static constexpr auto kSummary =
      "MobileNetV2 (Sandler et al. 2018), as torchvision's: inverted residuals, 3.5 million "
      "parameters.";

  static void describe(config::Describe<MobilenetV2>& options) { options.include<Mobilenet>(); }
};

struct MobilenetV3Small : Mobilenet {
  static constexpr auto kSummary =
      "MobileNetV3-Small (Howard et al. 2019), as torchvision's: 2.5 million parameters.";

  static void describe(config::Describe<MobilenetV3Small>& options) {
    options.include<Mobilenet>();
  }
};

struct MobilenetV3Large : Mobilenet {
  static constexpr auto kSummary =
      "MobileNetV3-Large (Howard et al. 2019), as torchvision's: 5.5 million parameters.";

  static void describe(config::Describe<MobilenetV3Large>& options) {
    options.include<Mobilenet>();
  }
};

}  // namespace trainctl::spec::model
