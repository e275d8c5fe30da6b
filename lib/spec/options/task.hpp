#pragma once

#include "config/schema/describe.hpp"
#include "spec/compatibility.hpp"

#include <array>
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

enum class GanLoss { non_saturating, hinge };
constexpr std::array<const char*, 2> enum_names(GanLoss) { return {"non_saturating", "hinge"}; }

struct Gan {
  static constexpr auto kSummary =
      "The model makes images from random numbers; a second model, the discriminator, learns to "
      "distinguish them from those of the data set (Goodfellow et al. 2014).";

  config::Stage discriminator;
  config::Stage optimizer;
  GanLoss loss = GanLoss::non_saturating;
  double r1_weight = 0;
  std::int64_t latent_size = 64;

  [[nodiscard]] static bool takes(Targets) { return true; }
  [[nodiscard]] std::vector<Refusal> refusals(const ModelInput& data) const;
  [[nodiscard]] ModelInput model_input(ModelInput data) const;

  static void describe(auto& options) {
    options.stage("discriminator", &Gan::discriminator, "model",
                  {.required = true, .example = "dcgan_discriminator"},
                  "The network that scores images: high for those of the data set.");
    options.stage("optimizer", &Gan::optimizer, "optimizer",
                  {.required = true, .example = "{type: adam, lr: 0.0002, betas: [0.5, 0.999]}"},
                  "The optimizer of the discriminator; no scheduler changes its learning rate.");
    options.field("loss", &Gan::loss,
                  "non_saturating: softplus of the scores (Goodfellow et al. 2014); hinge: the "
                  "hinge loss (Lim & Ye 2017).");
    options.field("r1_weight", &Gan::r1_weight, {.at_least = 0, .example = "10"},
                  "Adds r1_weight / 2 * the squared norm of the gradient of the scores of real "
                  "images to the discriminator's loss (Mescheder et al. 2018); 0: off.");
    options.field("latent_size", &Gan::latent_size, {.at_least = 1, .at_most = 1 << 16},
                  "Number of random numbers for an image, with a normal distribution.");
  }
};

}  // namespace trainctl::spec::task
