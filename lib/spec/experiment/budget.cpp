#include "spec/experiment/budget.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace trainctl::spec {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

// The largest first, so that a number is written with the unit that keeps it short.
constexpr std::array kUnits{Unit{"TiB", std::uint64_t{1} << 40},
                            Unit{"TB", 1'000'000'000'000},
                            Unit{"GiB", std::uint64_t{1} << 30},
                            Unit{"GB", 1'000'000'000},
                            Unit{"MiB", 1 << 20},
                            Unit{"MB", 1'000'000},
                            Unit{"KiB", 1 << 10},
                            Unit{"kB", 1000},
                            Unit{"KB", 1000},
                            Unit{"B", 1}};

constexpr double kMostBytes = 1e18;

}  // namespace

std::optional<Budget> parse_budget(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, number);
  if (error != std::errc() || end != text.data() + digits || number <= 0) return std::nullopt;
  std::string_view unit = text.substr(digits);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit == "%")
    return number <= 100 ? std::optional(Budget{.share = number / 100}) : std::nullopt;
  for (const Unit& one : kUnits) {
    const double bytes = number * static_cast<double>(one.bytes);
    if (unit == one.name && bytes >= 1 && bytes <= kMostBytes)
      return Budget{.bytes = static_cast<std::uint64_t>(bytes)};
  }
  return std::nullopt;
}

std::string to_text(const Budget& budget) {
  if (!budget.bytes) return fmt::format("{}%", config::number_text(budget.share * 100));
  for (const Unit& unit : kUnits) {
    if (*budget.bytes % unit.bytes == 0)
      return fmt::format("{}{}", *budget.bytes / unit.bytes, unit.name);
  }
  return {};
}

}  // namespace trainctl::spec

namespace trainctl::config {

void Codec<spec::Budget>::read(Reader& reader, const Node& node, const Field& field,
                               spec::Budget& out) {
  std::string text;
  if (!reader.string(node, field, text)) return;
  if (const auto budget = spec::parse_budget(text)) {
    out = *budget;
    return;
  }
  const bool bare = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  reader.diagnostics().error(
      node.position,
      fmt::format(
          "'{}' must be a share above 0% and up to 100%, or a size with its unit, found '{}'",
          field.key, printable(text)),
      bare ? fmt::format("write {}GiB, {}MB or {}%", text, text, text) : "write it as 50% or 8GiB");
}

}  // namespace trainctl::config
