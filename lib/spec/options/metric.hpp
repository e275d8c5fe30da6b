#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

#include <array>

namespace trainctl::spec::metric {

inline constexpr double kEvenChance = 0.5;

/// Options of class metrics that also support yes/no answers.
struct OfAnswers {
  double threshold = kEvenChance;

  [[nodiscard]] static bool takes(Answers) { return true; }
  static void describe(auto& options) {
    options.field("threshold", &OfAnswers::threshold, {.above = 0, .below = 1},
                  "Of yes-or-no answers: the sigmoid above which an output says yes.");
  }
};

enum class Average { macro, weighted, micro, binary };
constexpr std::array<const char*, 4> enum_names(Average) {
  return {"macro", "weighted", "micro", "binary"};
}

/// Options of precision, recall and f1.
struct Averaged : OfAnswers {
  Average average = Average::macro;

  static void describe(auto& options) {
    options.field("average", &Averaged::average,
                  "macro: the mean over classes that occur, or over all answers of a row; "
                  "weighted: by their samples; micro: all as one; binary: class 1 of two.");
    OfAnswers::describe(options);
  }
};

struct Accuracy : OfAnswers {
  static constexpr auto kSummary =
      "Fraction of samples whose highest logit is the class, or of yes-or-no answers that are "
      "right.";
};

struct TopKAccuracy {
  static constexpr auto kSummary = "Fraction of samples whose class is among the k highest logits.";

  int k = 5;

  static void describe(auto& options) {
    options.field("k", &TopKAccuracy::k, {.at_least = 1}, "How many logits count.");
  }
};

struct Precision : Averaged {
  static constexpr auto kSummary =
      "Share of what is called a class that is of it, as sklearn's precision_score.";
};

struct Recall : Averaged {
  static constexpr auto kSummary = "Share of a class that is called so, as sklearn's recall_score.";
};

struct F1 : Averaged {
  static constexpr auto kSummary = "Harmonic mean of precision and recall, as sklearn's f1_score.";
};

struct ConfusionMatrix {
  static constexpr auto kSummary =
      "How many samples of each class were called what; written to confusion_matrix.csv by the "
      "logger csv, a line for each class of each epoch and split.";
};

struct Perplexity {
  static constexpr auto kSummary =
      "Exponential of the mean negative log likelihood of the class or the token.";

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::numbers; }
};

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
  static void describe(auto& options) {
    options.field(
        "average", &Auroc::average,
        "macro: the mean over classes or answers that occur; weighted: by their samples.");
    options.field("max_scores", &Auroc::max_scores, {.at_least = 1},
                  "Scores (samples times classes) that each rank keeps, of 8 bytes. Up to them the "
                  "value is exact; beyond them they are reduced to bins.");
    options.field("bins", &Auroc::bins, {.at_least = 2, .at_most = 1 << 20},
                  "Bins per class beyond max_scores, each of about as many samples; what shares a "
                  "bin counts as tied, which changes the value by about 1 / bins at most.");
  }
};

/// The base of regression metrics.
struct OfNumbers {
  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
};

struct Mae : OfNumbers {
  static constexpr auto kSummary = "Mean absolute error over samples and numbers.";
};

struct Rmse : OfNumbers {
  static constexpr auto kSummary = "Root of the mean squared error over samples and numbers.";
};

struct R2 : OfNumbers {
  static constexpr auto kSummary =
      "Coefficient of determination, averaged over the numbers, as sklearn's r2_score.";
};

}  // namespace trainctl::spec::metric
