#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec::loss {

struct Huber {
  static constexpr auto kSummary =
      "Squared error below delta, delta times the absolute error above, as torch's HuberLoss; "
      "classes "
      "are compared as one-hot vectors.";

  double delta = 1;

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::tokens; }
  static void describe(config::Describe<Huber>& options) {
    options.field("delta", &Huber::delta, "Where the square ends.").above(0);
  }
};

}  // namespace trainctl::spec::loss
