#pragma once

#include "spec/metric/average.hpp"

namespace trainctl::spec::metric {

struct F1 : Averaged {
  static constexpr auto kSummary = "Harmonic mean of precision and recall, as sklearn's f1_score.";

  static void describe(config::Describe<F1>& options) { options.include<Averaged>(); }
};

}  // namespace trainctl::spec::metric
