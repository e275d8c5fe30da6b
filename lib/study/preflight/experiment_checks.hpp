#pragma once

#include "config/diagnostics.hpp"
#include "spec/compatibility.hpp"
#include "spec/load.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// What an experiment is loaded for. Training, evaluating and predicting need samples that fit the
/// model, predicting no labels; loading needs batches, reading the samples before their transforms.
enum class Purpose { training, evaluating, predicting, loading, reading };

/// What the headers of dataset.train say.
struct TrainingSamples {
  /// In the order of their numbers; empty where nobody named them.
  std::vector<std::string> class_names;
  /// Absent where the headers do not say, which is an error for a run.
  std::optional<spec::ModelInput> model_input;
};

/// The checks of an experiment against its data, for training also against its weights and this
/// machine. They mount its remote paths. What the headers say is returned in `samples`, which
/// outlives the checks.
std::vector<spec::Check> checks_for(Purpose purpose, TrainingSamples& samples);

/// Logs which files were read.
void log_files(const spec::Loaded& loaded);

/// Reads the headers of the data sets, where their part of the config could be read, and checks
/// what depends on their sizes. Every problem goes into `diagnostics`: as one of the data where a
/// file is at fault, as one of the config where the experiment does not fit its data.
TrainingSamples check_data(const spec::Loaded& loaded, Purpose purpose,
                           config::Diagnostics& diagnostics);

/// Reads the headers of dataset.train alone. Throws Error(data) or Error(config).
spec::ModelInput read_model_input(const spec::Experiment& experiment);

}  // namespace trainctl::study
