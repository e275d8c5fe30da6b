#pragma once

#include "config/schema/describe.hpp"

#include <cstdint>
#include <string>

namespace trainctl::spec::stopper {

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
