#pragma once

#include <array>

namespace trainctl::spec {

/// Whether lower or higher is better.
enum class Mode { min, max };
constexpr std::array<const char*, 2> enum_names(Mode) { return {"min", "max"}; }

}  // namespace trainctl::spec
