#pragma once

#include "base/strings.hpp"

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace trainctl {

/// Returns the number that the whole text is, as std::from_chars reads it in any locale: without
/// blanks and without '+'. Empty where the text is anything else or the number does not fit.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  return failure == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

/// Returns the ending of a noun behind a number: "" for 1, else "s".
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
