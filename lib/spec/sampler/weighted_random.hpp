#pragma once

#include "spec/sampler/drawn.hpp"

#include <vector>

namespace trainctl::spec::sampler {

struct WeightedRandom : Drawn {
  static constexpr auto kSummary =
      "Draws with replacement, each sample by the weight of its class, as PyTorch's "
      "WeightedRandomSampler.";

  std::vector<double> weights;

  static void describe(config::Describe<WeightedRandom>& options) {
    options.field("weights", &WeightedRandom::weights, "Weight of a sample, one for each class.")
        .required()
        .not_empty()
        .at_least(0)
        .example("[1, 1, 5]");
    options.include<Drawn>();
  }
};

}  // namespace trainctl::spec::sampler
