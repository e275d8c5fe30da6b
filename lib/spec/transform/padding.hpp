#pragma once

#include <array>

namespace trainctl::spec::transform {

/// What stands outside an image, with torchvision's names.
enum class PaddingMode { constant, edge, reflect, symmetric };
constexpr std::array<const char*, 4> enum_names(PaddingMode) {
  return {"constant", "edge", "reflect", "symmetric"};
}

}  // namespace trainctl::spec::transform
