#pragma once

#include <array>

namespace trainctl::spec {

/// What becomes of a sample that cannot be read.
enum class OnError { fail, skip };
constexpr std::array<const char*, 2> enum_names(OnError) { return {"fail", "skip"}; }

}  // namespace trainctl::spec
