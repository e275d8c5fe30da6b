#pragma once

#include <array>

namespace trainctl::spec::transform {

/// How a pixel between pixels is read.
enum class Interpolation { nearest, bilinear };
constexpr std::array<const char*, 2> enum_names(Interpolation) { return {"nearest", "bilinear"}; }

}  // namespace trainctl::spec::transform
