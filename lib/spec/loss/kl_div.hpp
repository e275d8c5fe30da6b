#pragma once

#include "config/describe.hpp"
#include "spec/sample.hpp"

namespace trainctl::spec::loss {

struct KlDiv {
  static constexpr auto kSummary =
      "Kullback-Leibler divergence of the softmax from the probabilities to learn, averaged over "
      "the "
      "batch (torch's KLDivLoss of log_softmax, reduction batchmean).";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
  static void describe(config::Describe<KlDiv>&) {}
};

}  // namespace trainctl::spec::loss
