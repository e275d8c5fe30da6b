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

struct L1 {
  static constexpr auto kSummary =
      "Mean absolute error of the numbers to learn; classes are compared as one-hot vectors.";

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::tokens; }
  static void describe(config::Describe<L1>&) {}
};

struct SmoothL1 {
  static constexpr auto kSummary =
      "Squared error below beta, absolute error above, as torch's SmoothL1Loss; classes are "
      "compared "
      "as one-hot vectors.";

  double beta = 1;

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::tokens; }
  static void describe(config::Describe<SmoothL1>& options) {
    options.field("beta", &SmoothL1::beta, "Where the square ends; 0: absolute error throughout.")
        .at_least(0);
  }
};

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
