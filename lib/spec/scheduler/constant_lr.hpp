#pragma once

#include "spec/scheduler/warmup.hpp"

namespace trainctl::spec::scheduler {

struct ConstantLr : Warmup {
  static constexpr auto kSummary = "The optimizer's rate throughout, after an optional warm-up.";

  static void describe(config::Describe<ConstantLr>& options) { options.include<Warmup>(); }
};

}  // namespace trainctl::spec::scheduler
