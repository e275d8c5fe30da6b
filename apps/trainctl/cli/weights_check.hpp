#pragma once

#include "spec/load.hpp"

namespace trainctl::app {

/// Looks at the file of weights that the experiment names: whether it is there and what describes
/// its tensors. Every problem goes into `diagnostics`. Whether they fit the model, a run tells.
void check_weights(const spec::Loaded& loaded, config::Diagnostics& diagnostics);

}  // namespace trainctl::app
