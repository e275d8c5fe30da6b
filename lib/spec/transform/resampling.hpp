#pragma once

#include <array>

namespace trainctl::spec::transform {

/// How a pixel between pixels is read.
enum class Interpolation { nearest, bilinear };
constexpr std::array<const char*, 2> enum_names(Interpolation) { return {"nearest", "bilinear"}; }

/// What stands outside an image, with torchvision's names.
enum class PaddingMode { constant, edge, reflect, symmetric };
constexpr std::array<const char*, 4> enum_names(PaddingMode) {
  return {"constant", "edge", "reflect", "symmetric"};
}

}  // namespace trainctl::spec::transform
