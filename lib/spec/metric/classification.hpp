#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

#include <array>

namespace trainctl::spec::metric {

inline constexpr double kEvenChance = 0.5;

/// What metrics of classes share that count yes-or-no answers, too.
struct OfAnswers {
  double threshold = kEvenChance;

  [[nodiscard]] static bool takes(Answers) { return true; }
  static void describe(config::Describe<OfAnswers>& options) {
    options
        .field("threshold", &OfAnswers::threshold,
               "Of yes-or-no answers: the sigmoid above which an output says yes.")
        .above(0)
        .below(1);
  }
};

enum class Average { macro, weighted, micro, binary };
constexpr std::array<const char*, 4> enum_names(Average) {
  return {"macro", "weighted", "micro", "binary"};
}

/// What precision, recall and f1 share.
struct Averaged : OfAnswers {
  Average average = Average::macro;

  static void describe(config::Describe<Averaged>& options) {
    options.field(
        "average", &Averaged::average,
        "macro: the mean over classes that occur, or over all answers of a row; weighted: "
        "by their samples; micro: all as one; binary: class 1 of two.");
    options.include<OfAnswers>();
  }
};

struct Accuracy : OfAnswers {
  static constexpr auto kSummary =
      "Fraction of samples whose highest logit is the class, or of yes-or-no answers that are "
      "right.";

  static void describe(config::Describe<Accuracy>& options) { options.include<OfAnswers>(); }
};

struct TopKAccuracy {
  static constexpr auto kSummary = "Fraction of samples whose class is among the k highest logits.";

  int k = 5;

  static void describe(config::Describe<TopKAccuracy>& options) {
    options.field("k", &TopKAccuracy::k, "How many logits count.").at_least(1);
  }
};

struct Precision : Averaged {
  static constexpr auto kSummary =
      "Share of what is called a class that is of it, as sklearn's precision_score.";

  static void describe(config::Describe<Precision>& options) { options.include<Averaged>(); }
};

struct Recall : Averaged {
  static constexpr auto kSummary = "Share of a class that is called so, as sklearn's recall_score.";

  static void describe(config::Describe<Recall>& options) { options.include<Averaged>(); }
};

struct F1 : Averaged {
  static constexpr auto kSummary = "Harmonic mean of precision and recall, as sklearn's f1_score.";

  static void describe(config::Describe<F1>& options) { options.include<Averaged>(); }
};

struct ConfusionMatrix {
  static constexpr auto kSummary =
      "How many samples of each class were called what; written to confusion_matrix.csv by the "
      "logger csv, a line for each class of each epoch and split.";

  static void describe(config::Describe<ConfusionMatrix>& /*options*/) {}
};

struct Perplexity {
  static constexpr auto kSummary =
      "Exponential of the mean negative log likelihood of the class or the token.";

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::numbers; }
  static void describe(config::Describe<Perplexity>&) {}
};

}  // namespace trainctl::spec::metric
