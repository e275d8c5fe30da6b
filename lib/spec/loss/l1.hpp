#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec::loss {

struct L1 {
  static constexpr auto kSummary =
      "Mean absolute error of the numbers to learn; classes are compared as one-hot vectors.";

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::tokens; }
  static void describe(config::Describe<L1>&) {}
};

}  // namespace trainctl::spec::loss
