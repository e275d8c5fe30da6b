#pragma once

#include "spec/scheduler/warmup.hpp"

namespace trainctl::spec::scheduler {

struct StepLr : Warmup {
  static constexpr auto kSummary =
      "Multiplies the rate by gamma every step_size intervals, as torch's StepLR.";

  std::int64_t step_size = 1;
  double gamma = 0.1;

  static void describe(config::Describe<StepLr>& options) {
    options.field("step_size", &StepLr::step_size, "Intervals between two drops.")
        .required()
        .at_least(1)
        .example("30");
    options.field("gamma", &StepLr::gamma, "Factor of each drop.").above(0);
    options.include<Warmup>();
  }
};

}  // namespace trainctl::spec::scheduler
