#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

namespace trainctl {

/// Returns the name of an enumerator. The namespace of an enum defines the names in their order:
/// constexpr std::array<const char*, 2> enum_names(Mode) { return {"min", "max"}; }
template <class Enum>
constexpr const char* enum_name(Enum value) {
  return enum_names(value)[static_cast<std::size_t>(value)];
}

/// Returns the enumerator with the name, if there is one.
template <class Enum>
constexpr std::optional<Enum> enum_called(std::string_view name) {
  const auto names = enum_names(Enum());
  const auto* found = std::ranges::find(names, name);
  return found == names.end() ? std::nullopt
                              : std::optional(static_cast<Enum>(found - names.begin()));
}

}  // namespace trainctl
