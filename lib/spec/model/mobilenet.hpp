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

}  // namespace trainctl::spec::model
