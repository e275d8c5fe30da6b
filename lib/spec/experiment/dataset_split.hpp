#pragma once

#include <array>

namespace trainctl::spec {

enum class Split { train, test };
constexpr std::array<const char*, 2> enum_names(Split) { return {"train", "test"}; }

}  // namespace trainctl::spec
