#pragma once

#include "spec/scheduler/schedule.hpp"

#include <vector>

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

struct Constant : Warmup {
  static constexpr auto kSummary =
      "The optimizer's learning rate throughout, after an optional warm-up.";

  static void describe(config::Describe<Constant>& options) { options.include<Warmup>(); }
};

struct ConstantLr : Warmup {
  static constexpr auto kSummary =
      "A fraction of the learning rate for the first intervals, then all of it, as torch's "
      "ConstantLR; `constant` never changes the rate.";

  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;

  static void describe(config::Describe<ConstantLr>& options) {
    options
        .field("factor", &ConstantLr::factor,
               "Fraction of the learning rate in the first intervals.")
        .at_least(0)
        .at_most(1);
    options
        .field("total_iters", &ConstantLr::total_iters,
               "Number of intervals with the reduced learning rate.")
        .at_least(0);
    options.include<Warmup>();
  }
};

}  // namespace trainctl::spec::scheduler
