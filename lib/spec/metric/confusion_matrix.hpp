#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::metric {

struct ConfusionMatrix {
  static constexpr auto kSummary =
      "How many samples of each class were called what; written to confusion_matrix.csv by the "
      "logger csv, a line for each class of each epoch and split.";

  static void describe(config::Describe<ConfusionMatrix>& /*options*/) {}
};

}  // namespace trainctl::spec::metric
