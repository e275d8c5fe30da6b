#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec::metric {

struct Mae {
  static constexpr auto kSummary = "Mean absolute error over samples and numbers.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
  static void describe(config::Describe<Mae>&) {}
};

struct Rmse {
  static constexpr auto kSummary = "Root of the mean squared error over samples and numbers.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
  static void describe(config::Describe<Rmse>&) {}
};

struct R2 {
  static constexpr auto kSummary =
      "Coefficient of determination, averaged over the numbers, as sklearn's r2_score.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
  static void describe(config::Describe<R2>&) {}
};

}  // namespace trainctl::spec::metric
