#pragma once

#include "spec/compatibility.hpp"
#include "spec/load.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::app {

/// What the data are wanted for: training, and the evaluation of what it left, ask for more than
/// the loader can give, predicting for no labels beside those of dataset.train, and reading only
/// for the samples before their transforms.
enum class Purpose { training, evaluating, predicting, loading, reading };

/// What the headers of dataset.train say.
struct TrainingSamples {
  /// In the order of their numbers; empty where nobody named them.
  std::vector<std::string> class_names;
  /// Absent where the headers do not say, which is an error for a run.
  std::optional<spec::ModelInput> model_input;
};

/// Looks at the data sets of the experiment (file headers only), where their part of the config
/// could be read, and at what depends on their sizes. Every problem goes into `diagnostics`: as one
/// of the data where a file is at fault, as one of the config where the experiment does not fit its
/// data.
TrainingSamples check_data(const spec::Loaded& loaded, Purpose purpose,
                           config::Diagnostics& diagnostics);

/// Reads the headers of dataset.train alone. Throws Error(data) or Error(config).
spec::ModelInput read_model_input(const spec::Experiment& experiment);

}  // namespace trainctl::app
