#pragma once

#include <array>

namespace trainctl::spec {

/// Whether lower or higher is better.
enum class Mode { min, max };
constexpr std::array<const char*, 2> enum_names(Mode) { return {"min", "max"}; }

/// What becomes of a sample that cannot be read.
enum class OnError { fail, skip };
constexpr std::array<const char*, 2> enum_names(OnError) { return {"fail", "skip"}; }

enum class Split { train, test };
constexpr std::array<const char*, 2> enum_names(Split) { return {"train", "test"}; }

}  // namespace trainctl::spec
