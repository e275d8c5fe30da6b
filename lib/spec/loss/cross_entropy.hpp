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
  static void describe(config::Describe<CrossEntropy>& options) {
    options
        .field("label_smoothing", &CrossEntropy::label_smoothing,
               "Mass moved from the class to all classes alike.")
        .at_least(0)
        .at_most(1);
    options.field("weight", &CrossEntropy::weight, "Weight of each class; empty: all 1.")
        .at_least(0)
        .example("[1, 1, 2, 1, 1, 1, 1, 1, 1, 1]");
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
  static void describe(config::Describe<Nll>& options) {
    options.field("weight", &Nll::weight, "Weight of each class; empty: all 1.")
        .at_least(0)
        .example("[1, 2]");
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
  static void describe(config::Describe<BceWithLogits>& options) {
    options
        .field("pos_weight", &BceWithLogits::pos_weight,
               "Weight of the ones of each output; empty: all 1.")
        .at_least(0)
        .example("[1, 3]");
  }
};

struct Focal {
  static constexpr auto kSummary =
      "Cross entropy that counts well-classified rows less (Lin et al. 2017); of numbers from 0 to "
      "1 "
      "as torchvision's sigmoid_focal_loss, of classes over the softmax.";

  double gamma = 2;
  std::optional<double> alpha;

  [[nodiscard]] static bool takes(Targets) { return true; }
  [[nodiscard]] static bool takes(Answers) { return true; }
  static void describe(config::Describe<Focal>& options) {
    options
        .field("gamma", &Focal::gamma, "Power of what is missing to certainty; 0: cross entropy.")
        .at_least(0);
    options
        .field("alpha", &Focal::alpha,
               "Of numbers: weight of ones, 1 - alpha that of zeros; none: both 1.")
        .at_least(0)
        .at_most(1)
        .example("0.25");
  }
};

struct KlDivWithLogits {
  static constexpr auto kSummary =
      "Softmax and Kullback-Leibler divergence from the target probabilities, averaged over the "
      "batch, as torch's KLDivLoss(reduction='batchmean') of log_softmax.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
  static void describe(config::Describe<KlDivWithLogits>&) {}
};

}  // namespace trainctl::spec::loss
