#pragma once

#include "stage/registry.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace trainctl::stages {

// One register_<kind>_<name> for each line of stages.def, defined in <kind>/<family>.cpp.
#define STAGE(kind, name, ...) void register_##kind##_##name(stage::Catalogue& catalogue);
#include "stages/stages.def"
#undef STAGE

/// Every stage of stages.def.
stage::Catalogue builtin_catalogue();

/// The row of that name in a table of sizes of a model. A name without a row does not compile.
template <class Size, std::size_t kSizes>
consteval Size size_named(const std::array<Size, kSizes>& sizes, std::string_view name) {
  return *std::ranges::find(sizes, name,
                            [](const Size& size) { return std::string_view(size.name); });
}

}  // namespace trainctl::stages
