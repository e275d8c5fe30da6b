#pragma once

#include "config/describe.hpp"

#include <vector>

namespace trainctl::spec::loss {

struct CrossEntropy {
  static constexpr auto kSummary =
      "Softmax and negative log likelihood of the class, averaged over the batch.";

  double label_smoothing = 0;
  std::vector<double> weight;

  static void describe(config::Describe<CrossEntropy>& options) {
    options
        .field("label_smoothing", &CrossEntropy::label_smoothing,
               "Mass moved from the class to all classes alike.")
        .at_least(0)
        .at_most(1);
    options.field("weight", &CrossEntropy::weight, "Weight of each class; empty: all 1.")
        .at_least(0)
        .example("[1, 1, 2, 1, 1, 1, 1, 1, 1, 1]");
  }
};

}  // namespace trainctl::spec::loss
