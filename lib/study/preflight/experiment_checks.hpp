#pragma once

#include "config/diagnostics.hpp"
#include "spec/compatibility.hpp"
#include "spec/load.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// What an experiment is loaded for. Training, evaluating and predicting need samples that fit the
/// model, and predicting needs no labels; loading needs batches; reading needs the samples before
/// their transforms.
enum class Purpose { training, evaluating, predicting, loading, reading };

/// The properties of dataset.train according to its headers.
struct TrainingSamples {
  /// By class index; empty if the data set has no class names.
  std::vector<std::string> class_names;
  /// Absent if the headers do not determine it, which is an error for a run.
  std::optional<spec::ModelInput> model_input;
};

/// Returns the checks of an experiment against its data, and for training also against its weights
/// and this machine. The checks mount remote paths. They write the header properties into
/// `samples`, which must outlive them.
std::vector<spec::Check> checks_for(Purpose purpose, TrainingSamples& samples);

/// Logs which experiment files were read.
void log_files(const spec::Loaded& loaded);

/// Reads the headers of the data sets whose config is valid, and checks everything that depends on
/// their sizes. Adds every problem to `diagnostics`: as a data problem if a file is at fault, as a
/// config problem if the experiment does not fit its data.
TrainingSamples check_data(const spec::Loaded& loaded, Purpose purpose,
                           config::Diagnostics& diagnostics);

/// Reads only the headers of dataset.train. Throws Error(data) or Error(config).
spec::ModelInput read_model_input(const spec::Experiment& experiment);

}  // namespace trainctl::study
