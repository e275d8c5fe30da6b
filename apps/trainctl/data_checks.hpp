#pragma once

#include "spec/load.hpp"

namespace trainctl::app {

/// Looks at the data sets of the experiment (file headers only) and at what depends on their sizes. Throws Error(data)
/// where a file is at fault, Error(config) where the experiment does not fit its data; each with every problem.
void check_data(const spec::Loaded& loaded, config::Diagnostics& diagnostics);

}  // namespace trainctl::app
