#pragma once

#include <array>
#include <cstddef>

namespace trainctl::spec {

/// The name of an enumerator of the experiment file, as it is written there.
template <class Enum>
constexpr const char* enum_name(Enum value) {
  return enum_names(value)[static_cast<std::size_t>(value)];
}

/// Whether lower or higher is better.
enum class Mode { min, max };
constexpr std::array<const char*, 2> enum_names(Mode) { return {"min", "max"}; }

/// What becomes of a sample that cannot be read.
enum class OnError { fail, skip };
constexpr std::array<const char*, 2> enum_names(OnError) { return {"fail", "skip"}; }

enum class Split { train, test };
constexpr std::array<const char*, 2> enum_names(Split) { return {"train", "test"}; }

}  // namespace trainctl::spec

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
