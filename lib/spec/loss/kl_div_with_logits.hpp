#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec::loss {

struct KlDivWithLogits {
  static constexpr auto kSummary =
      "Softmax and Kullback-Leibler divergence from the target probabilities, averaged over the "
      "batch, as torch's KLDivLoss(reduction='batchmean') of log_softmax.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
  static void describe(config::Describe<KlDivWithLogits>&) {}
};

}  // namespace trainctl::spec::loss
