#pragma once

#include "spec/metric/average.hpp"

namespace trainctl::spec::metric {

struct Recall : Averaged {
  static constexpr auto kSummary = "Share of a class that is called so, as sklearn's recall_score.";

  static void describe(config::Describe<Recall>& options) { options.include<Averaged>(); }
};

}  // namespace trainctl::spec::metric
