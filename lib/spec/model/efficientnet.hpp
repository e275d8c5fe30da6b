#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

namespace trainctl::spec::model {

/// The options that all sizes share; larger ones drop more by default.
struct Efficientnet {
  double dropout = 0.2;
  double stochastic_depth_prob = 0.2;

  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::images; }
  [[nodiscard]] static std::vector<Refusal> refusals(const ModelInput& input) {
    return refuse_small(input, 5);
  }

  static void describe(config::Describe<Efficientnet>& options) {
    options
        .field("dropout", &Efficientnet::dropout,
               "Probability of dropping a feature in front of the last layer.")
        .at_least(0)
        .below(1);
    options
        .field("stochastic_depth_prob", &Efficientnet::stochastic_depth_prob,
               "Probability that the last block is left out for a sample; from 0 at the first "
               "block it rises evenly (Huang et al. 2016).")
        .at_least(0)
        .at_most(1);
  }
};

}  // namespace trainctl::spec::model
