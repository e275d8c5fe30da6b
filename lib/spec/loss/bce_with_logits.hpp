#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

#include <vector>

namespace trainctl::spec::loss {

struct BceWithLogits {
  static constexpr auto kSummary =
      "Sigmoid and binary cross entropy of every output, as torch's BCEWithLogitsLoss: of numbers "
      "from 0 to 1, or of classes as one-hot vectors.";

  std::vector<double> pos_weight;

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::tokens; }
  [[nodiscard]] static bool takes(Answers) { return true; }
  [[nodiscard]] static bool takes(MixedLabels) { return true; }
  static void describe(config::Describe<BceWithLogits>& options) {
    options
        .field("pos_weight", &BceWithLogits::pos_weight,
               "Weight of the ones of each output; empty: all 1.")
        .at_least(0)
        .example("[1, 3]");
  }
};

}  // namespace trainctl::spec::loss
