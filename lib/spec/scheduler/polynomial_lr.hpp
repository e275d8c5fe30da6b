#pragma once

#include "spec/scheduler/warmup.hpp"

namespace trainctl::spec::scheduler {

struct PolynomialLr : Warmup {
  static constexpr auto kSummary =
      "From the rate down to 0 as a power of what is left, as torch's PolynomialLR.";

  config::Auto<std::int64_t> total_iters{5};
  double power = 1;

  static void describe(config::Describe<PolynomialLr>& options) {
    options
        .field("total_iters", &PolynomialLr::total_iters,
               "Intervals to 0; auto: the whole run after warm-up.")
        .at_least(1);
    options.field("power", &PolynomialLr::power, "Power of the fraction that is left.").above(0);
    options.include<Warmup>();
  }
};

}  // namespace trainctl::spec::scheduler
