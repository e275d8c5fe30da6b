#pragma once

#include "stage/registry.hpp"

namespace trainctl::engine {

/// The stages of stages.def, and those of the plug-ins that the experiment uses. Throws
/// Error(config) where the engine library of one cannot be loaded, or was built for another
/// trainctl or libtorch.
stage::Catalogue catalogue_in_use();

}  // namespace trainctl::engine
