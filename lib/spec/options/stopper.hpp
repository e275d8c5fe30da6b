#pragma once

#include "config/schema/describe.hpp"
#include "spec/experiment/enums.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::spec::stopper {

struct Patience {
  static constexpr auto kSummary =
      "Stops when the monitored value has not improved for `patience` validations.";

  std::string monitor = "val/loss";
  config::Auto<Mode> mode;
  std::int64_t patience = 3;
  double min_delta = 0;
  bool restore_best = false;
  std::optional<double> stopping_threshold;
  std::optional<double> divergence_threshold;

  static void describe(auto& options) {
    options.field("monitor", &Patience::monitor, {.example = "val/accuracy"},
                  "The value that is watched.");
    options.field("mode", &Patience::mode, "min: lower is better; max: higher; auto: by the name.");
    options.field("patience", &Patience::patience, {.at_least = 0},
                  "Stops after so many validations in a row without improvement; 0 counts as 1.");
    options.field("min_delta", &Patience::min_delta, {.at_least = 0},
                  "Smallest change that counts as improvement.");
    options.field("restore_best", &Patience::restore_best,
                  "Ends with the weights of the best validation.");
    options.field("stopping_threshold", &Patience::stopping_threshold, {.example = "0.99"},
                  "Stops at once when this value is reached.");
    options.field("divergence_threshold", &Patience::divergence_threshold, {.example = "10.0"},
                  "Stops at once when worse than this.");
  }
};

struct Divergence {
  static constexpr auto kSummary =
      "Ends the run as diverged when a loss has risen far above its best.";

  std::string monitor = "train/loss";
  double factor = 3;
  double min_delta = 0.1;
  std::int64_t patience = 2;
  double smoothing = 0;
  std::int64_t skip_first = 0;

  static void describe(auto& options) {
    options.field(
        "monitor", &Divergence::monitor, {.example = "val/loss"},
        "The loss that is watched, at the end of each epoch; train/loss at each log point too.");
    options.field("factor", &Divergence::factor, {.above = 1},
                  "Too high is what exceeds so many times the best so far; of a best below 0, what "
                  "is as far above it as it would be of its magnitude.");
    options.field("min_delta", &Divergence::min_delta, {.at_least = 0},
                  "What exceeds the best by no more than this is never too high.");
    options.field("patience", &Divergence::patience, {.at_least = 1},
                  "Ends the run after so many values in a row that are too high. A loss that is "
                  "not finite ends it at once, by itself.");
    options.field("smoothing", &Divergence::smoothing, {.at_least = 0, .below = 1},
                  "Decay of the exponential mean of the values, with Adam's bias correction, that "
                  "is watched in their place; 0: the values themselves.");
    options.field("skip_first", &Divergence::skip_first, {.at_least = 0},
                  "So many values at the beginning are neither too high nor the best; they count "
                  "in the mean alone.");
  }
};

}  // namespace trainctl::spec::stopper
