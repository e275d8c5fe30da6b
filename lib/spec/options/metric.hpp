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
                  "Probability above which an output counts as positive, for binary targets.");
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
    options.field(
        "average", &Averaged::average,
        "macro: mean over the classes that occur, or over all outputs; weighted: mean weighted by "
        "their samples; micro: over all samples together; binary: class 1 of two.");
    OfAnswers::describe(options);
  }
};

struct Accuracy : OfAnswers {
  static constexpr auto kSummary =
      "Fraction of samples whose highest logit is the correct class, or of binary predictions that "
      "are correct.";
};

struct TopKAccuracy {
  static constexpr auto kSummary =
      "Fraction of samples whose correct class is among the k highest logits.";

  int k = 5;

  static void describe(auto& options) {
    options.field("k", &TopKAccuracy::k, {.at_least = 1}, "Number of highest logits to consider.");
  }
};

struct Precision : Averaged {
  static constexpr auto kSummary =
      "True positives over predicted positives, as sklearn's precision_score.";
};

struct Recall : Averaged {
  static constexpr auto kSummary =
      "True positives over actual positives, as sklearn's recall_score.";
};

struct F1 : Averaged {
  static constexpr auto kSummary = "Harmonic mean of precision and recall, as sklearn's f1_score.";
};

/// The base of metrics of classes, also of those of each pixel.
struct OfOverlap {
  [[nodiscard]] static bool takes(Targets targets) {
    return targets == Targets::pixels || targets == Targets::classes;
  }
};

struct MeanIou : OfOverlap {
  static constexpr auto kSummary =
      "Mean over the classes of intersection over union, the Jaccard index (Everingham et al. "
      "2010), for all pixels together.";
};

struct Dice : OfOverlap {
  static constexpr auto kSummary =
      "Mean over the classes of the Dice coefficient (Dice 1945), the F1 score, for all pixels "
      "together.";
};

struct ConfusionMatrix {
  static constexpr auto kSummary =
      "Number of samples by actual and predicted class; the csv logger writes it to "
      "confusion_matrix.csv, one line per class, epoch and split.";
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
      "Area under the ROC curve, one class against the others or for each binary output, as "
      "sklearn's roc_auc_score. Exact over batches and ranks up to max_scores.";

  AurocAverage average = AurocAverage::macro;
  std::int64_t max_scores = 1 << 23;
  std::int64_t bins = 4096;

  [[nodiscard]] static bool takes(Answers) { return true; }
  static void describe(auto& options) {
    options.field("average", &Auroc::average,
                  "macro: mean over the classes or outputs that occur; weighted: mean weighted by "
                  "their samples.");
    options.field("max_scores", &Auroc::max_scores, {.at_least = 1},
                  "Number of scores (samples times classes) that each rank keeps, 8 bytes each; "
                  "the value is exact up to this number, then scores are binned.");
    options.field("bins", &Auroc::bins, {.at_least = 2, .at_most = 1 << 20},
                  "Bins per class beyond max_scores, of about equal size; scores in one bin count "
                  "as tied, which changes the value by at most about 1 / bins.");
  }
};

/// The base of regression metrics.
struct OfNumbers {
  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
};

struct Mae : OfNumbers {
  static constexpr auto kSummary = "Mean absolute error over samples and outputs.";
};

struct Rmse : OfNumbers {
  static constexpr auto kSummary = "Root mean squared error over samples and outputs.";
};

struct R2 : OfNumbers {
  static constexpr auto kSummary =
      "Coefficient of determination, averaged over the outputs, as sklearn's r2_score.";
};

}  // namespace trainctl::spec::metric
