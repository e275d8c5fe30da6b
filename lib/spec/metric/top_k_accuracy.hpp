#pragma once

#include "config/schema/describe.hpp"

namespace trainctl::spec::metric {

struct TopKAccuracy {
  static constexpr auto kSummary = "Fraction of samples whose class is among the k highest logits.";

  int k = 5;

  static void describe(config::Describe<TopKAccuracy>& options) {
    options.field("k", &TopKAccuracy::k, "How many logits count.").at_least(1);
  }
};

}  // namespace trainctl::spec::metric
