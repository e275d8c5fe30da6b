#pragma once

#include "config/schema/describe.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::spec::sampler {

/// What the samplers that draw with replacement share.
struct Drawn {
  std::optional<std::int64_t> num_samples;

  static void describe(config::Describe<Drawn>& options) {
    options
        .field("num_samples", &Drawn::num_samples,
               "Samples of an epoch; absent: as many as the data set has.")
        .at_least(1)
        .at_most(4'294'967'294)
        .example("50000");
  }
};

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

struct ClassBalanced : Drawn {
  static constexpr auto kSummary = "Draws with replacement so that every class is equally likely.";

  static void describe(config::Describe<ClassBalanced>& options) { options.include<Drawn>(); }
};

}  // namespace trainctl::spec::sampler
