#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec::metric {

struct Perplexity {
  static constexpr auto kSummary =
      "Exponential of the mean negative log likelihood of the class or the token.";

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::numbers; }
  static void describe(config::Describe<Perplexity>&) {}
};

}  // namespace trainctl::spec::metric
