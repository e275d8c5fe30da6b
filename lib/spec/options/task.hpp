#pragma once

#include "spec/sample.hpp"

// A task whose model sees other samples than the data set has states them in
// `ModelInput model_input(ModelInput data) const`: see spec::model_input().

namespace trainctl::spec::task {

struct Auto {
  static constexpr auto kSummary =
      "Supervised learning: classification, regression or language_modeling, by the targets of the "
      "data set.";

  [[nodiscard]] static bool takes(Targets) { return true; }
};

struct Classification {
  static constexpr auto kSummary =
      "The model predicts the class of each sample, or a yes/no answer for each target number.";

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::tokens; }
};

struct Regression {
  static constexpr auto kSummary = "The model predicts the target numbers of each sample.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
};

struct LanguageModeling {
  static constexpr auto kSummary = "The model predicts the next token after each token.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::tokens; }
};

}  // namespace trainctl::spec::task
