#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec::metric {

struct Mae {
  static constexpr auto kSummary = "Mean absolute error over samples and numbers.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
  static void describe(config::Describe<Mae>&) {}
};

}  // namespace trainctl::spec::metric
