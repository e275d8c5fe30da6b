#pragma once

#include "spec/scheduler/warmup.hpp"

namespace trainctl::spec::scheduler {

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
