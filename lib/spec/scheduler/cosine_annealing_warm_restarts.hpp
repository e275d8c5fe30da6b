#pragma once

#include "spec/scheduler/warmup.hpp"

namespace trainctl::spec::scheduler {

struct CosineAnnealingWarmRestarts : Warmup {
  static constexpr auto kSummary =
      "Cosines that start anew (SGDR, Loshchilov & Hutter 2016), as torch's "
      "CosineAnnealingWarmRestarts.";

  std::int64_t t_0 = 1;
  std::int64_t t_mult = 1;
  double eta_min = 0;

  static void describe(config::Describe<CosineAnnealingWarmRestarts>& options) {
    options.field("t_0", &CosineAnnealingWarmRestarts::t_0, "Intervals to the first restart.")
        .required()
        .at_least(1)
        .example("10");
    options
        .field("t_mult", &CosineAnnealingWarmRestarts::t_mult,
               "Each cosine is this many times as long as the one before.")
        .at_least(1);
    options.field("eta_min", &CosineAnnealingWarmRestarts::eta_min, "The lowest rate.").at_least(0);
    options.include<Warmup>();
  }
};

}  // namespace trainctl::spec::scheduler
