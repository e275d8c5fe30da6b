#pragma once

#include "spec/metric/average.hpp"

namespace trainctl::spec::metric {

struct Precision : Averaged {
  static constexpr auto kSummary =
      "Share of what is called a class that is of it, as sklearn's precision_score.";

  static void describe(config::Describe<Precision>& options) { options.include<Averaged>(); }
};

}  // namespace trainctl::spec::metric
