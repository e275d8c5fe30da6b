#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::model {

struct Linear {
  static constexpr auto kSummary =
      "One linear layer on the flattened input: multinomial logistic regression.";

  bool bias = true;

  static void describe(config::Describe<Linear>& options) {
    options.field("bias", &Linear::bias, "Adds a learnt bias.");
  }
};

}  // namespace trainctl::spec::model
