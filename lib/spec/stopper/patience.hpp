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

}  // namespace trainctl::spec::stopper
