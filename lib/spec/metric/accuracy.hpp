#pragma once

#include "config/describe.hpp"

namespace trainctl::spec::metric {

struct Accuracy {
  static constexpr auto kSummary = "Fraction of samples whose highest logit is the class.";

  static void describe(config::Describe<Accuracy>&) {}
};

}  // namespace trainctl::spec::metric
