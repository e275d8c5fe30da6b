#include "base/exact_double.hpp"

#include "base/hash.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>

namespace trainctl {
namespace {

constexpr std::string_view kNan = "nan:";

/// All of the text, or nothing.
template <class Number, class Form>
std::optional<Number> whole(std::string_view text, Form form) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, value, form);
  return error == std::errc() && read == end ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string exact_text(double value) {
  if (std::isnan(value)) return std::string(kNan) + to_hex(std::bit_cast<std::uint64_t>(value));
  std::array<char, 32> text{};
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::hex);
  return {text.data(), written.ptr};
}

std::optional<double> exact_double(std::string_view text) {
  if (!text.starts_with(kNan)) {
    const auto value = whole<double>(text, std::chars_format::hex);
    return value && !std::isnan(*value) ? value : std::nullopt;
  }
  const auto bits = whole<std::uint64_t>(text.substr(kNan.size()), 16);
  if (!bits) return std::nullopt;
  const auto value = std::bit_cast<double>(*bits);
  return std::isnan(value) ? std::optional(value) : std::nullopt;
}

}  // namespace trainctl
