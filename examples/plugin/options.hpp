#pragma once

#include <config/schema/describe.hpp>
#include <spec/sample.hpp>

#include <cstdint>

// The options of the four stages. Each struct describes itself once: error messages, defaults,
// `explain` and the JSON Schema come from the description. Both libraries include this file.

namespace spirals {

namespace config = trainctl::config;

/// The options of `dataset: {type: spirals}`.
struct Spirals {
  static constexpr auto kSummary = "Points on spiral arms in the plane; the arm is the class.";

  std::int64_t samples = 2000;
  int arms = 2;
  double turns = 1.5;
  double noise = 0.05;
  std::uint64_t seed = 0;

  static void describe(config::Describe<Spirals>& options) {
    options.field("samples", &Spirals::samples, {.at_least = 1, .at_most = 1 << 24},
                  "Number of points.");
    options.field("arms", &Spirals::arms, {.at_least = 2, .at_most = 100},
                  "Number of spiral arms.");
    options.field("turns", &Spirals::turns, {.above = 0, .at_most = 10},
                  "Turns that an arm makes.");
    options.field("noise", &Spirals::noise, {.at_least = 0},
                  "Largest distance of a point from its arm.");
    options.field("seed", &Spirals::seed, {.at_least = 0},
                  "Seed of the points; independent of the run's seed.");
  }
};

/// The options of `model: {type: gated_mlp}`.
struct GatedMlp {
  static constexpr auto kSummary = "Layers of gated linear units (Dauphin et al. 2016).";

  std::int64_t hidden = 64;
  int layers = 2;

  static void describe(config::Describe<GatedMlp>& options) {
    options.field("hidden", &GatedMlp::hidden, {.at_least = 1, .at_most = 65536},
                  "Outputs of a layer.");
    options.field("layers", &GatedMlp::layers, {.at_least = 1, .at_most = 64},
                  "Layers before the last.");
  }
};

/// The options of `loss: {type: poly1}`.
struct Poly1 {
  static constexpr auto kSummary =
      "Cross entropy + epsilon (1 - p of the class) (Leng et al. 2022).";

  double epsilon = 1;

  /// Accepts class labels of samples and of tokens; without this function the loss would only
  /// accept class labels of samples.
  [[nodiscard]] static bool takes(trainctl::spec::Targets targets) {
    return targets != trainctl::spec::Targets::numbers;
  }

  static void describe(config::Describe<Poly1>& options) {
    options.field("epsilon", &Poly1::epsilon, {.at_least = -1}, "Weight of the second term.");
  }
};

/// The options of `task: {type: consistency}`.
struct Consistency {
  static constexpr auto kSummary =
      "The loss, plus the distance between the outputs for an input and for the same input with "
      "noise (Sajjadi et al. 2016).";

  double noise = 0.05;
  double weight = 1;

  static void describe(config::Describe<Consistency>& options) {
    options.field("noise", &Consistency::noise, {.at_least = 0},
                  "Standard deviation of the noise that is added to the input.");
    options.field("weight", &Consistency::weight, {.at_least = 0}, "Weight of the distance.");
  }
};

}  // namespace spirals
