#pragma once

#include "spec/scheduler/warmup.hpp"

namespace trainctl::spec::scheduler {

struct LinearLr : Warmup {
  static constexpr auto kSummary =
      "A straight line from start_factor to end_factor of the learning rate, as torch's LinearLR.";

  double start_factor = 1.0 / 3;
  double end_factor = 1;
  config::Auto<std::int64_t> total_iters{5};

  static void describe(config::Describe<LinearLr>& options) {
    options
        .field("start_factor", &LinearLr::start_factor,
               "Fraction of the learning rate at the start.")
        .above(0)
        .at_most(1);
    options.field("end_factor", &LinearLr::end_factor, "Fraction of the learning rate at the end.")
        .at_least(0)
        .at_most(1);
    options
        .field("total_iters", &LinearLr::total_iters,
               "Intervals from start to end; auto: the whole run after warm-up.")
        .at_least(1);
    options.include<Warmup>();
  }
};

}  // namespace trainctl::spec::scheduler
