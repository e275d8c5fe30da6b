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
    options.field("monitor", &Patience::monitor, {.example = "val/accuracy"}, "Value to monitor.");
    options.field("mode", &Patience::mode,
                  "min: lower is better; max: higher is better; auto: min for loss, mae, rmse and "
                  "perplexity, max for all other values.");
    options.field(
        "patience", &Patience::patience, {.at_least = 0},
        "Number of validations in a row without improvement before the run stops; 0 counts as 1.");
    options.field("min_delta", &Patience::min_delta, {.at_least = 0},
                  "Smallest change that counts as improvement.");
    options.field("restore_best", &Patience::restore_best,
                  "Restores the weights of the best validation at the end.");
    options.field("stopping_threshold", &Patience::stopping_threshold, {.example = "0.99"},
                  "Stops immediately when the monitored value reaches this threshold.");
    options.field("divergence_threshold", &Patience::divergence_threshold, {.example = "10.0"},
                  "Stops immediately when the monitored value is worse than this threshold.");
  }
};

struct Divergence {
  static constexpr auto kSummary =
      "Ends the run as diverged when a loss is far above its best value.";

  std::string monitor = "train/loss";
  double factor = 3;
  double min_delta = 0.1;
  std::int64_t patience = 2;
  double smoothing = 0;
  std::int64_t skip_first = 0;

  static void describe(auto& options) {
    options.field(
        "monitor", &Divergence::monitor, {.example = "val/loss"},
        "Loss to monitor at the end of each epoch; train/loss also every log_every_n_steps steps.");
    options.field("factor", &Divergence::factor, {.above = 1},
                  "A value is too high if it exceeds the best so far by more than (factor - 1) "
                  "times the magnitude of the best: with factor 3 and best 0.5, above 1.5.");
    options.field("min_delta", &Divergence::min_delta, {.at_least = 0},
                  "A value is too high only if it also exceeds the best value by more than this.");
    options.field("patience", &Divergence::patience, {.at_least = 1},
                  "Number of consecutive values that must be too high before the run ends. A loss "
                  "that is not finite ends the run immediately.");
    options.field("smoothing", &Divergence::smoothing, {.at_least = 0, .below = 1},
                  "Decay of an exponential moving average with Adam's bias correction, which is "
                  "monitored instead of the single values; 0: no average.");
    options.field("skip_first", &Divergence::skip_first, {.at_least = 0},
                  "Number of first values that enter the average but cannot be too high.");
  }
};

}  // namespace trainctl::spec::stopper
