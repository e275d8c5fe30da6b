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

  static void describe(config::Describe<Patience>& options) {
    options.field("monitor", &Patience::monitor, "The value that is watched.")
        .example("val/accuracy");
    options.field("mode", &Patience::mode, "min: lower is better; max: higher; auto: by the name.");
    options
        .field("patience", &Patience::patience,
               "Stops after so many validations in a row without improvement; 0 counts as 1.")
        .at_least(0);
    options.field("min_delta", &Patience::min_delta, "Smallest change that counts as improvement.")
        .at_least(0);
    options.field("restore_best", &Patience::restore_best,
                  "Ends with the weights of the best validation.");
    options
        .field("stopping_threshold", &Patience::stopping_threshold,
               "Stops at once when this value is reached.")
        .example("0.99");
    options
        .field("divergence_threshold", &Patience::divergence_threshold,
               "Stops at once when worse than this.")
        .example("10.0");
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

  static void describe(config::Describe<Divergence>& options) {
    options
        .field("monitor", &Divergence::monitor,
               "The loss that is watched, at the end of each epoch; train/loss at each log point "
               "too.")
        .example("val/loss");
    options
        .field("factor", &Divergence::factor,
               "Too high is what exceeds so many times the best so far; of a best below 0, what is "
               "as far above it as it would be of its magnitude.")
        .above(1);
    options
        .field("min_delta", &Divergence::min_delta,
               "What exceeds the best by no more than this is never too high.")
        .at_least(0);
    options
        .field("patience", &Divergence::patience,
               "Ends the run after so many values in a row that are too high. A loss that is not "
               "finite ends it at once, by itself.")
        .at_least(1);
    options
        .field("smoothing", &Divergence::smoothing,
               "Decay of the exponential mean of the values, with Adam's bias correction, that is "
               "watched in their place; 0: the values themselves.")
        .at_least(0)
        .below(1);
    options
        .field("skip_first", &Divergence::skip_first,
               "So many values at the beginning are neither too high nor the best; they count in "
               "the mean alone.")
        .at_least(0);
  }
};

}  // namespace trainctl::spec::stopper
