#pragma once

#include "spec/scheduler/warmup.hpp"

namespace trainctl::spec::scheduler {

struct CosineAnnealingLr : Warmup {
  static constexpr auto kSummary =
      "Half a cosine from the rate down to eta_min, as torch's CosineAnnealingLR.";

  config::Auto<std::int64_t> t_max;
  double eta_min = 0;

  static void describe(config::Describe<CosineAnnealingLr>& options) {
    options
        .field("t_max", &CosineAnnealingLr::t_max,
               "Intervals to the bottom; auto: the whole run after warm-up.")
        .at_least(1);
    options.field("eta_min", &CosineAnnealingLr::eta_min, "The lowest rate.").at_least(0);
    options.include<Warmup>();
  }
};

}  // namespace trainctl::spec::scheduler
