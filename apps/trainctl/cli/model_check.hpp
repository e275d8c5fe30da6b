#pragma once

#include "spec/load.hpp"
#include "spec/model_input.hpp"

#include <optional>

namespace trainctl::app {

/// Builds the model in a short process and adds what of weights, freeze and the optimizer's
/// patterns does not fit it. `input` is what the headers of dataset.train say. Throws
/// Error(resource) where this build has no engine.
void check_model(const spec::Loaded& loaded, const std::optional<spec::ModelInput>& input,
                 config::Diagnostics& diagnostics);

}  // namespace trainctl::app
