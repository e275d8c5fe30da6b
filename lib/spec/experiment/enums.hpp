#pragma once

#include "base/enums.hpp"

#include <array>

namespace trainctl::spec {

/// Whether a lower or a higher value is better.
enum class Mode { min, max };
constexpr std::array<const char*, 2> enum_names(Mode) { return {"min", "max"}; }

/// How to treat a sample that cannot be read.
enum class OnError { fail, skip };
constexpr std::array<const char*, 2> enum_names(OnError) { return {"fail", "skip"}; }

enum class Split { train, test };
constexpr std::array<const char*, 2> enum_names(Split) { return {"train", "test"}; }

}  // namespace trainctl::spec

namespace trainctl::spec::transform {

/// How values between pixels are interpolated.
enum class Interpolation { nearest, bilinear };
constexpr std::array<const char*, 2> enum_names(Interpolation) { return {"nearest", "bilinear"}; }

/// How pixels outside of an image are filled, with torchvision's names.
enum class PaddingMode { constant, edge, reflect, symmetric };
constexpr std::array<const char*, 4> enum_names(PaddingMode) {
  return {"constant", "edge", "reflect", "symmetric"};
}

}  // namespace trainctl::spec::transform
