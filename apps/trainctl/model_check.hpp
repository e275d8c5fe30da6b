#pragma once

#include "spec/load.hpp"

namespace trainctl::app {

/// Builds the model in a short process and adds what of weights, freeze and the optimizer's
/// patterns does not fit it. Throws Error(resource) where this build has no engine.
void check_model(const spec::Loaded& loaded, config::Diagnostics& diagnostics);

}  // namespace trainctl::app
