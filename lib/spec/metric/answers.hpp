#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec::metric {

inline constexpr double kEvenChance = 0.5;

/// What metrics of classes share that count yes-or-no answers, too.
struct OfAnswers {
  double threshold = kEvenChance;

  [[nodiscard]] static bool takes(Answers) { return true; }
  static void describe(config::Describe<OfAnswers>& options) {
    options
        .field("threshold", &OfAnswers::threshold,
               "Of yes-or-no answers: the sigmoid above which an output says yes.")
        .above(0)
        .below(1);
  }
};

}  // namespace trainctl::spec::metric
