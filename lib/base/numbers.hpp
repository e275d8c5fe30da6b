#pragma once

#include <charconv>
#include <optional>
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

}  // namespace trainctl
