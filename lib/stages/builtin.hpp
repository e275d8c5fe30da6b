#pragma once

#include "stage/registry.hpp"

namespace trainctl::stages {

// One register_<kind>_<name> for each line of stages.def, defined in <kind>/<family>.cpp.
#define STAGE(kind, name, ...) void register_##kind##_##name(stage::Catalogue& catalogue);
#include "stages/stages.def"
#undef STAGE

/// Every stage of stages.def.
stage::Catalogue builtin_catalogue();

}  // namespace trainctl::stages
