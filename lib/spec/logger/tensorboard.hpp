#pragma once

#include "config/schema/describe.hpp"

#include <cstdint>

namespace trainctl::spec::logger {

struct Tensorboard {
  static constexpr auto kSummary =
      "Event files for TensorBoard in tensorboard/ of the run folder: scalars, hyperparameters, "
      "the "
      "config and the verdict, confusion matrices, distributions of step times.";

  std::int64_t histograms_every_n_epochs = 1;
  bool images = true;

  static void describe(config::Describe<Tensorboard>& options) {
    options
        .field("histograms_every_n_epochs", &Tensorboard::histograms_every_n_epochs,
               "Epochs between two distributions of step times; 0: none.")
        .at_least(0)
        .at_most(1'000'000);
    options.field("images", &Tensorboard::images,
                  "A picture of each confusion matrix, where that metric is asked for.");
  }
};

}  // namespace trainctl::spec::logger
