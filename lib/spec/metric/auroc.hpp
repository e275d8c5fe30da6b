#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

#include <array>

namespace trainctl::spec::metric {

enum class AurocAverage { macro, weighted };
constexpr std::array<const char*, 2> enum_names(AurocAverage) { return {"macro", "weighted"}; }

struct Auroc {
  static constexpr auto kSummary =
      "Area under the ROC curve, each class against the others, or the yes of each answer against "
      "its no, as sklearn's roc_auc_score: the share of pairs that are in the right order, ties "
      "counting half. Exact over batches and ranks up to max_scores.";

  AurocAverage average = AurocAverage::macro;
  std::int64_t max_scores = 1 << 23;
  std::int64_t bins = 4096;

  [[nodiscard]] static bool takes(Answers) { return true; }
  static void describe(config::Describe<Auroc>& options) {
    options.field(
        "average", &Auroc::average,
        "macro: the mean over classes or answers that occur; weighted: by their samples.");
    options
        .field("max_scores", &Auroc::max_scores,
               "Scores (samples times classes) that each rank keeps, of 8 bytes. Up to them the "
               "value is exact; beyond them they are reduced to bins.")
        .at_least(1);
    options
        .field("bins", &Auroc::bins,
               "Bins per class beyond max_scores, each of about as many samples; what shares a bin "
               "counts as tied, which changes the value by about 1 / bins at most.")
        .at_least(2)
        .at_most(1 << 20);
  }
};

}  // namespace trainctl::spec::metric
