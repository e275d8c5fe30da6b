#pragma once

#include "config/schema/describe.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::spec::sampler {

/// Options of the samplers that draw with replacement.
struct Drawn {
  std::optional<std::int64_t> num_samples;

  static void describe(auto& options) {
    options.field("num_samples", &Drawn::num_samples,
                  {.at_least = 1, .at_most = 4'294'967'294, .example = "50000"},
                  "Samples per epoch; absent: the size of the data set.");
  }
};

struct WeightedRandom : Drawn {
  static constexpr auto kSummary =
      "Draws samples with replacement by the weight of their class, as torch's "
      "WeightedRandomSampler.";

  std::vector<double> weights;

  static void describe(auto& options) {
    options.field("weights", &WeightedRandom::weights,
                  {.required = true, .not_empty = true, .at_least = 0, .example = "[1, 1, 5]"},
                  "Weight of the samples of each class.");
    Drawn::describe(options);
  }
};

struct ClassBalanced : Drawn {
  static constexpr auto kSummary =
      "Draws samples with replacement so that all classes are equally likely.";
};

}  // namespace trainctl::spec::sampler
