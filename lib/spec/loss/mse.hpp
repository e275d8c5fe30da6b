#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec::loss {

struct Mse {
  static constexpr auto kSummary =
      "Mean squared error of the numbers to learn; classes are compared as one-hot vectors.";

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::tokens; }
  static void describe(config::Describe<Mse>&) {}
};

}  // namespace trainctl::spec::loss
