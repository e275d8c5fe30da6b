#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::spec::loss {

struct CrossEntropy {
  static constexpr auto kSummary =
      "Softmax and negative log likelihood of the class, averaged over the batch, as torch's "
      "CrossEntropyLoss.";

  double label_smoothing = 0;
  std::vector<double> weight;
  std::optional<std::int64_t> ignore_index;
  bool soft_targets = false;

  [[nodiscard]] bool takes(Targets targets) const {
    return (targets == Targets::numbers) == soft_targets;
  }
  [[nodiscard]] static bool takes(MixedLabels) { return true; }
  static void describe(config::Describe<CrossEntropy>& options) {
    options
        .field("label_smoothing", &CrossEntropy::label_smoothing,
               "Mass moved from the class to all classes alike.")
        .at_least(0)
        .at_most(1);
    options.field("weight", &CrossEntropy::weight, "Weight of each class; empty: all 1.")
        .at_least(0)
        .example("[1, 1, 2, 1, 1, 1, 1, 1, 1, 1]");
    options.field("ignore_index", &CrossEntropy::ignore_index, "Rows of this label do not count.");
    options.field("soft_targets", &CrossEntropy::soft_targets,
                  "The labels are probabilities, one number for each class.");
  }
};

}  // namespace trainctl::spec::loss
