#pragma once

#include "spec/scheduler/warmup.hpp"

#include <vector>

namespace trainctl::spec::scheduler {

struct MultiStepLr : Warmup {
  static constexpr auto kSummary =
      "Multiplies the rate by gamma at each milestone, as torch's MultiStepLR.";

  std::vector<std::int64_t> milestones;
  double gamma = 0.1;

  static void describe(config::Describe<MultiStepLr>& options) {
    options
        .field("milestones", &MultiStepLr::milestones, "Intervals at which the rate drops, rising.")
        .required()
        .not_empty()
        .at_least(1)
        .example("[30, 60]");
    options.field("gamma", &MultiStepLr::gamma, "Factor of each drop.").above(0);
    options.include<Warmup>();
  }
};

}  // namespace trainctl::spec::scheduler
