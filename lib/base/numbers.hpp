#pragma once

#include "base/strings.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <system_error>

namespace trainctl {

/// Parses the whole text as a number with std::from_chars, independent of the locale, without
/// spaces or '+'. Empty if the text is anything else or the number does not fit. `form` is a base
/// or a std::chars_format.
template <class Number, class... Form>
std::optional<Number> parse_number(std::string_view text, Form... form) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value, form...);
  return failure == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

/// Returns the lowest `count` bytes of a number, at most 8, least significant first.
inline std::string little_endian(std::uint64_t value, std::size_t count) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&value), count};
}

/// Returns the number that little_endian() encoded, from at most 8 bytes.
inline std::uint64_t from_little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

/// Returns the plural ending of a noun after a number: "" for 1, else "s".
constexpr const char* plural(auto count) { return count == 1 ? "" : "s"; }

/// Returns "1 batch" or "1,200 batches".
inline std::string counted(long long count, std::string_view one, std::string_view many) {
  return with_thousands(count) + " " + std::string(count == 1 ? one : many);
}

/// Returns "1 step" or "1,200 steps".
inline std::string counted(long long count, const std::string& word) {
  return counted(count, word, word + "s");
}

}  // namespace trainctl
