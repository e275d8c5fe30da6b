#pragma once

#include "spec/scheduler/warmup.hpp"

namespace trainctl::spec::scheduler {

struct ExponentialLr : Warmup {
  static constexpr auto kSummary =
      "Multiplies the rate by gamma every interval, as torch's ExponentialLR.";

  double gamma = 0.95;

  static void describe(config::Describe<ExponentialLr>& options) {
    options.field("gamma", &ExponentialLr::gamma, "Factor of each interval.")
        .required()
        .above(0)
        .example("0.95");
    options.include<Warmup>();
  }
};

}  // namespace trainctl::spec::scheduler
