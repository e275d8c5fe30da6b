#pragma once

#include "spec/scheduler/warmup.hpp"

namespace trainctl::spec::scheduler {

struct Constant : Warmup {
  static constexpr auto kSummary =
      "The optimizer's learning rate throughout, after an optional warm-up.";

  static void describe(config::Describe<Constant>& options) { options.include<Warmup>(); }
};

}  // namespace trainctl::spec::scheduler
