#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

#include <vector>

namespace trainctl::spec::model {

struct ConvnextTiny {
  static constexpr auto kSummary =
      "ConvNeXt, tiny size (Liu et al. 2022), as torchvision's convnext_tiny.";

  double stochastic_depth_prob = 0.1;
  double layer_scale = 1e-6;

  [[nodiscard]] static bool takes(Inputs inputs) { return inputs == Inputs::images; }
  /// The stem and three times the half divide height and width by 32.
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& input) const;

  static void describe(config::Describe<ConvnextTiny>& options) {
    options
        .field("stochastic_depth_prob", &ConvnextTiny::stochastic_depth_prob,
               "Probability that a sample skips the last block; those before it rise to it evenly.")
        .at_least(0)
        .at_most(1);
    options
        .field("layer_scale", &ConvnextTiny::layer_scale,
               "What each block's output is multiplied by at first; it is learnt.")
        .at_least(0);
  }
};

}  // namespace trainctl::spec::model
