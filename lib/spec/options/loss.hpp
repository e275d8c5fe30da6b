#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::spec::loss {

struct CrossEntropy {
  static constexpr auto kSummary =
      "Cross entropy between logits and classes, averaged over the batch, as torch's "
      "CrossEntropyLoss.";

  double label_smoothing = 0;
  std::vector<double> weight;
  std::optional<std::int64_t> ignore_index;
  bool soft_targets = false;

  [[nodiscard]] bool takes(Targets targets) const {
    return (targets == Targets::numbers) == soft_targets;
  }
  [[nodiscard]] static bool takes(MixedLabels) { return true; }
  static void describe(auto& options) {
    options.field("label_smoothing", &CrossEntropy::label_smoothing, {.at_least = 0, .at_most = 1},
                  "Label smoothing: share of the target that is spread evenly over all classes.");
    options.field("weight", &CrossEntropy::weight,
                  {.at_least = 0, .example = "[1, 1, 2, 1, 1, 1, 1, 1, 1, 1]"},
                  "Weight of each class; empty: all 1.");
    options.field("ignore_index", &CrossEntropy::ignore_index, "Label whose rows are ignored.");
    options.field("soft_targets", &CrossEntropy::soft_targets,
                  "Treats the labels as probabilities, one per class.");
  }
};

struct Nll {
  static constexpr auto kSummary =
      "Negative log likelihood for a model that outputs log-probabilities, as torch's NLLLoss.";

  std::vector<double> weight;
  std::optional<std::int64_t> ignore_index;

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::numbers; }
  [[nodiscard]] static bool takes(MixedLabels) { return true; }
  static void describe(auto& options) {
    options.field("weight", &Nll::weight, {.at_least = 0, .example = "[1, 2]"},
                  "Weight of each class; empty: all 1.");
    options.field("ignore_index", &Nll::ignore_index, "Label whose rows are ignored.");
  }
};

struct BceWithLogits {
  static constexpr auto kSummary =
      "Binary cross entropy with logits, as torch's BCEWithLogitsLoss; targets are numbers from 0 "
      "to 1, or classes as one-hot vectors.";

  std::vector<double> pos_weight;

  [[nodiscard]] static bool takes(Targets targets) { return has_one_row(targets); }
  [[nodiscard]] static bool takes(Answers) { return true; }
  [[nodiscard]] static bool takes(MixedLabels) { return true; }
  static void describe(auto& options) {
    options.field("pos_weight", &BceWithLogits::pos_weight, {.at_least = 0, .example = "[1, 3]"},
                  "Weight of the positive targets of each output; empty: all 1.");
  }
};

struct Focal {
  static constexpr auto kSummary =
      "Focal loss (Lin et al. 2017): torchvision's sigmoid_focal_loss for targets from 0 to 1, "
      "over the softmax for classes.";

  double gamma = 2;
  std::optional<double> alpha;

  [[nodiscard]] static bool takes(Targets) { return true; }
  [[nodiscard]] static bool takes(Answers) { return true; }
  static void describe(auto& options) {
    options.field("gamma", &Focal::gamma, {.at_least = 0},
                  "Exponent of the factor (1 - p)^gamma; 0: cross entropy.");
    options.field("alpha", &Focal::alpha, {.at_least = 0, .at_most = 1, .example = "0.25"},
                  "Weight of positive targets; negative targets have the weight 1 - alpha. Absent: "
                  "both weights are 1. Only for targets from 0 to 1.");
  }
};

struct KlDivWithLogits {
  static constexpr auto kSummary =
      "Kullback-Leibler divergence of the softmax of the logits from the target probabilities, "
      "averaged over the batch, as torch's KLDivLoss(reduction='batchmean') of log_softmax.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
};

/// The base of regression losses, which compare classes as one-hot vectors.
struct OfNumbers {
  [[nodiscard]] static bool takes(Targets targets) { return has_one_row(targets); }
};

struct Mse : OfNumbers {
  static constexpr auto kSummary =
      "Mean squared error, as torch's MSELoss; classes are compared as one-hot vectors.";
};

struct L1 : OfNumbers {
  static constexpr auto kSummary =
      "Mean absolute error, as torch's L1Loss; classes are compared as one-hot vectors.";
};

struct SmoothL1 : OfNumbers {
  static constexpr auto kSummary =
      "Squared error below beta, absolute error above, as torch's SmoothL1Loss; classes are "
      "compared as one-hot vectors.";

  double beta = 1;

  static void describe(auto& options) {
    options.field("beta", &SmoothL1::beta, {.at_least = 0},
                  "Error at which the loss changes from squared to absolute; 0: always absolute.");
  }
};

struct Huber : OfNumbers {
  static constexpr auto kSummary =
      "Squared error below delta, delta times the absolute error above, as torch's HuberLoss; "
      "classes are compared as one-hot vectors.";

  double delta = 1;

  static void describe(auto& options) {
    options.field("delta", &Huber::delta, {.above = 0},
                  "Error at which the loss changes from squared to linear.");
  }
};

}  // namespace trainctl::spec::loss
