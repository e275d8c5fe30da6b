#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

// A task whose model sees other samples than the data set has states them in
// `ModelInput model_input(ModelInput data) const`: see spec::model_input().

namespace trainctl::spec::task {

struct Auto {
  static constexpr auto kSummary =
      "Supervised learning: classification, regression or language_modeling, by the targets of the "
      "data set.";

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::pixels; }
};

struct Classification {
  static constexpr auto kSummary =
      "The model predicts the class of each sample, or a yes/no answer for each target number.";

  [[nodiscard]] static bool takes(Targets targets) { return has_one_row(targets); }
};

struct Regression {
  static constexpr auto kSummary = "The model predicts the target numbers of each sample.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::numbers; }
};

struct LanguageModeling {
  static constexpr auto kSummary = "The model predicts the next token after each token.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::tokens; }
};

struct Segmentation {
  static constexpr auto kSummary =
      "The model predicts the class of each pixel of an image, from pictures with masks.";

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::pixels; }
  /// The last channel of the data set's images is the mask.
  [[nodiscard]] static ModelInput model_input(ModelInput data);
};

struct Reconstruction {
  static constexpr auto kSummary =
      "The model reproduces its input, as an autoencoder: the targets are the values of the input.";

  [[nodiscard]] static bool takes(Targets targets) { return targets != Targets::pixels; }
  [[nodiscard]] static std::vector<Refusal> refusals(const ModelInput& data);
  [[nodiscard]] static ModelInput model_input(ModelInput data);
};

struct MaskedLanguageModeling {
  static constexpr auto kSummary =
      "The model predicts tokens that are hidden in its input, as BERT (Devlin et al. 2018).";

  double probability = 0.15;
  config::Auto<std::int64_t> mask_token;

  [[nodiscard]] static bool takes(Targets targets) { return targets == Targets::tokens; }
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& data) const;
  /// By default the vocabulary of the model has one more token, the mask.
  [[nodiscard]] ModelInput model_input(ModelInput data) const;

  static void describe(auto& options) {
    options.field("probability", &MaskedLanguageModeling::probability, {.above = 0, .below = 1},
                  "Share of the tokens of a sample to predict, at least one. Of these, 80 % are "
                  "replaced by the mask, 10 % by a random token, and 10 % stay.");
    options.field("mask_token", &MaskedLanguageModeling::mask_token,
                  {.at_least = 0, .example = "4"},
                  "Token that hides others; auto: a new token after the vocabulary.");
  }
};

struct Distillation {
  static constexpr auto kSummary =
      "The model also learns the probabilities of a trained model, the teacher (Hinton et al. "
      "2015).";

  config::Stage teacher;
  std::filesystem::path weights;
  double temperature = 2;
  double alpha = 0.5;

  [[nodiscard]] static bool takes(Targets targets) {
    return targets == Targets::classes || targets == Targets::tokens;
  }
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& data) const;

  static void describe(auto& options) {
    options.stage("teacher", &Distillation::teacher, "model",
                  {.required = true, .example = "resnet50"}, "The trained network.");
    options.field("weights", &Distillation::weights,
                  {.required = true, .example = "runs/teacher/latest/checkpoints/best.safetensors"},
                  "Weights of the teacher: a safetensors file.");
    options.field("temperature", &Distillation::temperature, {.above = 0},
                  "Divisor of the logits of both models before the softmax.");
    options.field(
        "alpha", &Distillation::alpha, {.at_least = 0, .at_most = 1},
        "Share of the teacher: alpha * temperature^2 * KL divergence + (1 - alpha) * loss. "
        "Evaluations compute only the loss.");
  }
};

}  // namespace trainctl::spec::task
