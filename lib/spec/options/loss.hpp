#pragma once

#include "config/schema/describe.hpp"
#include "spec/sample.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace trainctl::spec::loss {

struct CrossEntropy {
  static constexpr auto kSummary =
      "Softmax and negative log likelihood of the class, averaged over the batch, as torch's "
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
                  "Mass moved from the class to all classes alike.");
    options.field("weight", &CrossEntropy::weight,
                  {.at_least = 0, .example = "[1, 1, 2, 1, 1, 1, 1, 1, 1, 1]"},
                  "Weight of each class; empty: all 1.");
    options.field("ignore_index", &CrossEntropy::ignore_index, "Rows of this label do not count.");
    options.field("soft_targets", &CrossEntropy::soft_targets,
                  "The labels are probabilities, one number for each class.");
  }
};

struct Nll {
  static constexpr auto kSummary =
      "Negative log likelihood of the class where the model's outputs are log-probabilities, as "
      "torch's NLLLoss.";

  std::vector<double> weight;
  std::optional<std::int64_t> ignore_index;

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::numbers; }
  [[nodiscard]] static bool takes(MixedLabels) { return true; }
  static void describe(auto& options) {
    options.field("weight", &Nll::weight, {.at_least = 0, .example = "[1, 2]"},
                  "Weight of each class; empty: all 1.");
    options.field("ignore_index", &Nll::ignore_index, "Rows of this label do not count.");
  }
};

struct BceWithLogits {
  static constexpr auto kSummary =
      "Sigmoid and binary cross entropy of every output, as torch's BCEWithLogitsLoss: of numbers "
      "from 0 to 1, or of classes as one-hot vectors.";

  std::vector<double> pos_weight;

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::tokens; }
  [[nodiscard]] static bool takes(Answers) { return true; }
  [[nodiscard]] static bool takes(MixedLabels) { return true; }
  static void describe(auto& options) {
    options.field("pos_weight", &BceWithLogits::pos_weight, {.at_least = 0, .example = "[1, 3]"},
                  "Weight of the ones of each output; empty: all 1.");
  }
};

struct Focal {
  static constexpr auto kSummary =
      "Cross entropy that counts well-classified rows less (Lin et al. 2017); of numbers from 0 to "
      "1 as torchvision's sigmoid_focal_loss, of classes over the softmax.";

  double gamma = 2;
  std::optional<double> alpha;

  [[nodiscard]] static bool takes(Targets) { return true; }
  [[nodiscard]] static bool takes(Answers) { return true; }
  static void describe(auto& options) {
    options.field("gamma", &Focal::gamma, {.at_least = 0},
                  "Power of what is missing to certainty; 0: cross entropy.");
    options.field("alpha", &Focal::alpha, {.at_least = 0, .at_most = 1, .example = "0.25"},
                  "Of numbers: weight of ones, 1 - alpha that of zeros; none: both 1.");
  }
};

struct KlDivWithLogits {
  static constexpr auto kSummary =
      "Softmax and Kullback-Leibler divergence from the target probabilities, averaged over the "
      "batch, as torch's KLDivLoss(reduction='batchmean') of log_softmax.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
};

/// The base of regression losses, which compare classes as one-hot vectors.
struct OfNumbers {
  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::tokens; }
};

struct Mse : OfNumbers {
  static constexpr auto kSummary =
      "Mean squared error of the numbers to learn; classes are compared as one-hot vectors.";
};

struct L1 : OfNumbers {
  static constexpr auto kSummary =
      "Mean absolute error of the numbers to learn; classes are compared as one-hot vectors.";
};

struct SmoothL1 : OfNumbers {
  static constexpr auto kSummary =
      "Squared error below beta, absolute error above, as torch's SmoothL1Loss; classes are "
      "compared as one-hot vectors.";

  double beta = 1;

  static void describe(auto& options) {
    options.field("beta", &SmoothL1::beta, {.at_least = 0},
                  "Where the square ends; 0: absolute error throughout.");
  }
};

struct Huber : OfNumbers {
  static constexpr auto kSummary =
      "Squared error below delta, delta times the absolute error above, as torch's HuberLoss; "
      "classes are compared as one-hot vectors.";

  double delta = 1;

  static void describe(auto& options) {
    options.field("delta", &Huber::delta, {.above = 0}, "Where the square ends.");
  }
};

}  // namespace trainctl::spec::loss
