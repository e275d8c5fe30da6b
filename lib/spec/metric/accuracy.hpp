#pragma once

#include "spec/metric/answers.hpp"

namespace trainctl::spec::metric {

struct Accuracy : OfAnswers {
  static constexpr auto kSummary =
      "Fraction of samples whose highest logit is the class, or of yes-or-no answers that are "
      "right.";

  static void describe(config::Describe<Accuracy>& options) { options.include<OfAnswers>(); }
};

}  // namespace trainctl::spec::metric
