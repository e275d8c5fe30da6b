#pragma once

#include "engine/resolve/step_probe.hpp"
#include "spec/experiment/job.hpp"
#include "train/step/forward.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace trainctl::engine {

/// An int8 model as a TorchScript file.
struct Int8Model {
  std::string script;
  std::int64_t layers = 0;   // with int8 weights
  std::int64_t batches = 0;  // used for calibration; 0: none was needed
};

/// Converts the model, which is on a CPU, to int8. The ranges of the activations come from batches
/// of dataset.train in the order of training and with the transforms of evaluation; models whose
/// only int8 layers are linear read no data. Throws Error(config) if the model cannot be quantized,
/// and the errors of open_split().
Int8Model quantize_model(stage::Model& model, const ProbeContext& run, const spec::Job& job,
                         dist::Communicator& communicator);

/// Returns a model that computes the script of a TorchScript file. It has no parameters.
std::unique_ptr<stage::Model> script_model(const std::string& script);

/// Samples per second of forward passes.
struct ForwardSpeeds {
  double float32 = 0;
  double int8 = 0;
};

/// Times both models on random batches of `rows` rows, in turns; each figure is the median of five
/// turns. The models are in evaluation mode.
ForwardSpeeds compare_speeds(stage::Model& float32, stage::Model& int8,
                             const stage::ModelContext& shape, std::int64_t rows,
                             const train::ForwardOptions& options);

}  // namespace trainctl::engine
