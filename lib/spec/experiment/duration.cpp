#include "spec/experiment/duration.hpp"

#include "base/strings.hpp"

#include <array>
#include <charconv>
#include <string>
#include <vector>

namespace trainctl::spec {
namespace {

constexpr double kMostSeconds = 10.0 * 366 * 86'400;

std::optional<int> digits(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = error == std::errc() && end == text.data() + text.size();
  return all && !text.starts_with('-') ? std::optional(value) : std::nullopt;
}

// DD:HH:MM:SS or HH:MM:SS; only the first part may pass its clock's limit.
std::optional<double> clock_form(std::string_view text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 3 && parts.size() != 4) return std::nullopt;
  constexpr std::array kUnits{86'400.0, 3'600.0, 60.0, 1.0};
  constexpr std::array kLimits{366, 24, 60, 60};
  double seconds = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t unit = i + 4 - parts.size();
    const auto value = digits(parts[i]);
    if (!value || (i > 0 && *value >= kLimits[unit])) return std::nullopt;
    seconds += *value * kUnits[unit];
  }
  return seconds;
}

double unit_seconds(char unit) {
  switch (unit) {
    case 's': return 1;
    case 'm': return 60;
    case 'h': return 3'600;
    case 'd': return 86'400;
    default: return 0;
  }
}

// 1h30m: numbers, each with a unit, from the largest down.
std::optional<double> unit_form(std::string_view text) {
  double seconds = 0;
  double last = 2 * unit_seconds('d');
  while (!text.empty()) {
    const std::size_t length = text.find_first_not_of("0123456789.");
    if (length == 0 || length == std::string_view::npos) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + length, value);
    const double unit = unit_seconds(text[length]);
    if (error != std::errc() || end != text.data() + length || unit == 0 || unit >= last)
      return std::nullopt;
    seconds += value * unit;
    last = unit;
    text.remove_prefix(length + 1);
  }
  return seconds;
}

}  // namespace

std::optional<double> parse_duration(std::string_view text) {
  const auto seconds =
      text.find(':') != std::string_view::npos ? clock_form(text) : unit_form(text);
  return seconds && *seconds > 0 && *seconds <= kMostSeconds ? seconds : std::nullopt;
}

}  // namespace trainctl::spec
