#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec::metric {

struct Rmse {
  static constexpr auto kSummary = "Root of the mean squared error over samples and numbers.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
  static void describe(config::Describe<Rmse>&) {}
};

}  // namespace trainctl::spec::metric
