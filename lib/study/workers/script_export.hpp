#pragma once

#include "base/files.hpp"
#include "checkpoint/export.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/model_input.hpp"

#include <functional>

namespace trainctl::study {

/// A checkpoint whose model becomes a TorchScript program.
struct ScriptExport {
  fs::path checkpoint;
  checkpoint::Weights weights = checkpoint::Weights::validated;
  fs::path to;
  fs::path executable;  // started as `trainctl worker`
  /// Reads the headers of dataset.train.
  std::function<spec::ModelInput(const spec::Experiment&)> read_model_input;
};

/// Builds the model of the experiment that the checkpoint stores, in a worker process on the CPU,
/// and writes it with the weights as TorchScript; `to` appears complete or not at all. Of the
/// experiment's data only the headers of dataset.train are read. Throws Error(checkpoint),
/// Error(config), Error(data), Error(resource).
checkpoint::Exported export_script(const ScriptExport& request);

}  // namespace trainctl::study
