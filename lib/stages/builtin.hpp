#pragma once

#include "stage/registry.hpp"

namespace trainctl::stages {

// One register_<kind>_<family> for each family of stages.def, defined in <kind>/<family>.cpp.
#define FAMILY(kind, family) void register_##kind##_##family(stage::Catalog& catalog);
#include "stages/families.def"
#undef FAMILY

/// Every stage of stages.def.
stage::Catalog builtin_catalog();

}  // namespace trainctl::stages
