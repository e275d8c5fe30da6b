#pragma once

#include "config/describe.hpp"
#include "spec/sample.hpp"

#include <array>

namespace trainctl::spec::metric {

enum class AurocAverage { macro, weighted };
constexpr std::array<const char*, 2> enum_names(AurocAverage) { return {"macro", "weighted"}; }

struct Auroc {
  static constexpr auto kSummary =
      "Area under the ROC curve, each class against the others, or the yes of each answer against "
      "its no, as sklearn's roc_auc_score; samples are counted in bins of their log-odds, so that "
      "batches and ranks add up exactly.";

  AurocAverage average = AurocAverage::macro;
  std::int64_t bins = 4096;

  [[nodiscard]] static bool takes(Answers) { return true; }
  static void describe(config::Describe<Auroc>& options) {
    options.field(
        "average", &Auroc::average,
        "macro: the mean over classes or answers that occur; weighted: by their samples.");
    options
        .field("bins", &Auroc::bins,
               "Bins of the log-odds from -16 to 16; what shares a bin counts as tied.")
        .at_least(2)
        .at_most(1 << 20);
  }
};

}  // namespace trainctl::spec::metric
