#pragma once

#include "config/schema/describe.hpp"
#include "spec/layer/shapes.hpp"

namespace trainctl::spec::layer {

struct Dropout {
  static constexpr auto kSummary =
      "Drops numbers at random in training (Srivastava et al. 2014), as torch's Dropout.";

  double p = 0.5;

  [[nodiscard]] static LayerStep after(const LayerInput& input) { return {input.shape, {}, {}}; }
  static void describe(config::Describe<Dropout>& options) {
    options.field("p", &Dropout::p, "Probability of dropping a number.").at_least(0).below(1);
  }
};

}  // namespace trainctl::spec::layer
