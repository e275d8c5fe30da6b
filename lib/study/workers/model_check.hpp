#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "spec/load.hpp"
#include "spec/model_input.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// Something of the experiment that does not fit its model.
struct ModelProblem {
  std::string key;  // "model", "weights", "freeze" or "optimizer"
  ErrorKind kind = ErrorKind::config;
  std::string message;
};

/// Whether anything of the experiment depends on the names or shapes of the model's tensors:
/// weights, freeze, patterns of the optimizer.
bool names_parameters(const spec::Loaded& loaded);

/// Builds the model in a worker process on the CPU, without training, and compares its tensors with
/// the header of the file of weights, with `freeze` and with the patterns of the optimizer. `input`
/// is what the headers of dataset.train say; without it, the worker opens the data. Throws
/// Error(data), Error(resource) where the model cannot be built for such a reason.
std::vector<ModelProblem> check_model(const spec::Loaded& loaded,
                                      const std::optional<spec::ModelInput>& input,
                                      const fs::path& executable);

}  // namespace trainctl::study
