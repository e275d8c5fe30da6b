#pragma once

#include "stage/registry.hpp"

namespace trainctl::stages {

// Declares register_<kind>_<family> for each family of stages.def; <kind>/<family>.cpp defines it.
#define FAMILY(kind, family) void register_##kind##_##family(stage::Catalog& catalog);
#include "stages/families.def"
#undef FAMILY

/// Returns the catalog of all stages in stages.def.
stage::Catalog builtin_catalog();

}  // namespace trainctl::stages
