#include "base/strings.hpp"
#include "base/url.hpp"
#include "config/diagnostics.hpp"
#include "config/schema/describe.hpp"
#include "config/schema/fields.hpp"
#include "config/schema/reader.hpp"
#include "config/wording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

// The scalar half of Reader: what each type accepts, and what is said about the spellings that
// YAML 1.1, Python and other runners would have let pass.

namespace trainctl::config {
namespace {

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view without_sign(std::string_view text) {
  return text.starts_with('-') || text.starts_with('+') ? text.substr(1) : text;
}

bool has_leading_zero(std::string_view text) {
  const std::string_view digits = without_sign(text);
  return digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9';
}

std::optional<double> parse_double(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const bool shaped =
      !text.empty() && text.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range && shaped) return HUGE_VAL;
  return error == std::errc() && shaped && end == text.data() + text.size() ? std::optional(value)
                                                                            : std::nullopt;
}

enum class IntegerFault { none, not_an_integer, too_large };

struct IntegerParse {
  IntegerFault fault = IntegerFault::none;
  std::int64_t value = 0;
};

// Decimal, 0x1F or 0o17, with a sign.
IntegerParse parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view digits = without_sign(text);
  int base = 10;
  if (digits.starts_with("0x")) base = 16;
  if (digits.starts_with("0o")) base = 8;
  if (base != 10) digits.remove_prefix(2);
  std::uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  if (error == std::errc::invalid_argument || end != digits.data() + digits.size())
    return {IntegerFault::not_an_integer};
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (error != std::errc() || magnitude > kMost) return {IntegerFault::too_large};
  const auto value = static_cast<std::int64_t>(magnitude);
  return {IntegerFault::none, negative ? -value : value};
}

std::string without(std::string_view text, char unwanted) {
  std::string kept(text);
  std::erase(kept, unwanted);
  return kept;
}

// What to write instead of a number that YAML 1.1, Python or a spreadsheet would have understood.
std::string number_hint(const Node& node) {
  const std::string& text = node.text;
  if (node.quoted && parse_double(text)) return "remove the quotes: a quoted value is a text";
  if (text.find('_') != std::string::npos && parse_double(without(text, '_'))) {
    return fmt::format("write {}, without underscores", without(text, '_'));
  }
  if (const std::size_t comma = text.find(','); comma != std::string::npos) {
    std::string point = text;
    point[comma] = '.';
    const bool thousands = text.size() - comma == 4 || !parse_double(point);
    if (thousands && parse_double(without(text, ',')))
      return fmt::format("write {}, without commas", without(text, ','));
    if (parse_double(point)) return fmt::format("write {}, with a decimal point", point);
  }
  if (text.ends_with('%')) {
    if (const auto percent = parse_double(std::string_view(text).substr(0, text.size() - 1))) {
      return fmt::format("write {}", *percent / 100);
    }
  }
  if (text == "nan" || text == "NaN") return "YAML spells it .nan";
  if (text == "inf" || text == "-inf" || text == "Infinity") return "YAML spells it .inf";
  if (text.find('/') != std::string::npos || text.find('*') != std::string::npos)
    return "write the result: there is no arithmetic";
  return "";
}

std::string leading_zero_hint(std::string_view text) {
  std::string_view digits = without_sign(text);
  const std::string sign = text.starts_with('-') ? "-" : "";
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  const bool octal = digits.find_first_of("89.eE") == std::string_view::npos;
  std::string hint = fmt::format("write {}{}", sign, digits);
  return octal ? hint + fmt::format(", or {}0o{} for an octal number", sign, digits) : hint;
}

std::string integer_hint(const Node& node) {
  if (!node.quoted && has_leading_zero(node.text)) return leading_zero_hint(node.text);
  const std::optional<double> value = node.quoted ? std::nullopt : parse_double(node.text);
  if (value && std::nearbyint(*value) == *value && std::abs(*value) < 1e15)
    return fmt::format("write {:.0f}", *value);
  return number_hint(node);
}

std::string both(const std::string& lower, const std::string& upper) {
  return lower.empty() || upper.empty() ? lower + upper : lower + " and " + upper;
}

bool inside(double value, const std::optional<Bound>& minimum,
            const std::optional<Bound>& maximum) {
  const bool low =
      minimum && (minimum->inclusive ? value < minimum->value : value <= minimum->value);
  const bool high =
      maximum && (maximum->inclusive ? value > maximum->value : value >= maximum->value);
  return !low && !high;
}

bool is_secret(const Node& node) { return node.text.find("${secret:") != std::string::npos; }

}  // namespace

bool Reader::is_auto(const Node& node) {
  return node.type == Node::Type::scalar && !node.quoted && node.text == "auto";
}

bool Reader::expect_scalar(const Node& node, const Field& field, const std::string& wanted) {
  if (node.broken) return false;
  if (node.type != Node::Type::scalar) return fail(node, field, wanted);
  return !refuse_secret(node, field);
}

// A secret is looked up where it is used; any other field would take it for its own text.
bool Reader::refuse_secret(const Node& node, const Field& field) {
  if (!is_secret(node)) return false;
  diagnostics_.error(
      node.position,
      fmt::format("'{}' takes no secret: its value is written into the run folder", field.key),
      "write the value, or ${env:NAME} for one that may be seen");
  return true;
}

bool Reader::boolean(const Node& node, const Field& field, bool& out) {
  if (!expect_scalar(node, field, "true or false")) return false;
  if (!node.quoted && (node.text == "true" || node.text == "false")) {
    out = node.text == "true";
    return true;
  }
  constexpr std::array<std::string_view, 8> kTrue{"yes",  "y", "on",      "1",
                                                  "true", "t", "enabled", "enable"};
  constexpr std::array<std::string_view, 8> kFalse{"no",    "n", "off",      "0",
                                                   "false", "f", "disabled", "disable"};
  std::string lower = node.text;
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  std::string hint;
  if (std::ranges::find(kTrue, lower) != kTrue.end()) hint = "write true";
  if (std::ranges::find(kFalse, lower) != kFalse.end()) hint = "write false";
  if (node.quoted && !hint.empty()) hint += ", without quotes";
  return fail(node, field, "true or false", hint);
}

bool Reader::integer(const Node& node, const Field& field, std::int64_t low, std::int64_t high,
                     std::int64_t& out) {
  if (!expect_scalar(node, field, "an integer")) return false;
  const IntegerParse parsed = parse_integer(node.text);
  if (node.quoted || has_leading_zero(node.text) || parsed.fault == IntegerFault::not_an_integer) {
    const bool zero =
        !node.quoted && has_leading_zero(node.text) && all_digits(without_sign(node.text));
    return fail(node, field, zero ? "an integer without a leading zero" : "an integer",
                integer_hint(node));
  }
  const bool negative = node.text.starts_with('-');
  const bool large = parsed.fault == IntegerFault::too_large;
  const bool beneath = large ? negative : parsed.value < low;
  const bool beyond = large ? !negative : parsed.value > high;
  if (beneath || beyond ||
      !inside(static_cast<double>(parsed.value), field.minimum, field.maximum)) {
    const std::string type_lower = beneath ? fmt::format("at least {}", low) : "";
    const std::string type_upper = beyond ? fmt::format("at most {}", high) : "";
    return fail(node, field,
                both(field.minimum ? lower_text(*field.minimum) : type_lower,
                     field.maximum ? upper_text(*field.maximum) : type_upper));
  }
  out = parsed.value;
  return true;
}

bool Reader::number(const Node& node, const Field& field, double& out) {
  if (!expect_scalar(node, field, "a number")) return false;
  const std::string& text = node.text;
  const std::string_view magnitude = without_sign(text);
  if (!node.quoted && (magnitude == ".nan" || magnitude == ".inf")) {
    if (!field.allows_non_finite) return fail(node, field, "a finite number");
    out = magnitude == ".nan" ? std::numeric_limits<double>::quiet_NaN() : HUGE_VAL;
    if (text.starts_with('-')) out = -out;
    return true;
  }
  const std::optional<double> value = node.quoted ? std::nullopt : parse_double(text);
  if (!value) return fail(node, field, "a number", number_hint(node));
  if (has_leading_zero(text))
    return fail(node, field, "a number without a leading zero", leading_zero_hint(text));
  if (!std::isfinite(*value))
    return fail(node, field, "a number of double precision (2e-308 to 1.7e308)");
  if (!inside(*value, field.minimum, field.maximum)) {
    return fail(node, field, bounds_text(field));
  }
  out = *value;
  return true;
}

bool Reader::string(const Node& node, const Field& field, std::string& out) {
  if (!expect_scalar(node, field, "a text")) return false;
  if (field.not_empty && node.text.empty()) return fail(node, field, "a text that is not empty");
  out = node.text;
  return true;
}

bool Reader::path(const Node& node, const Field& field, std::filesystem::path& out) {
  if (!expect_scalar(node, field, "a path")) return false;
  if (node.text.empty()) return fail(node, field, "a path that is not empty");
  if (node.text.find('\0') != std::string::npos)
    return fail(node, field, "a path without NUL bytes");
  if (node.text == "~" || node.text.starts_with("~/")) {
    return fail(node, field, "a path",
                fmt::format("write \"${{env:HOME}}{}\": '~' is not expanded",
                            printable(node.text.substr(1))));
  }
  if (is_remote(node.text)) {
    out = node.text;
    return true;
  }
  const Source* source = node.written_in ? node.written_in.get() : node.position.source.get();
  const std::filesystem::path folder = source == nullptr ? std::filesystem::path() : source->folder;
  out = std::filesystem::absolute(folder / node.text).lexically_normal();
  return true;
}

bool Reader::secret(const Node& node, const Field& field, std::string& name) {
  if (node.broken) return false;
  constexpr std::string_view kBegin = "${secret:";
  const std::string_view text = node.text;
  if (node.type != Node::Type::scalar || !text.starts_with(kBegin) || !text.ends_with('}') ||
      text.find('}') != text.size() - 1) {
    Position place = node.position;
    place.length = kHiddenLine;  // the scan for secrets does not see every way to write one
    diagnostics_.error(place,
                       fmt::format("'{}' must be a reference to a secret and nothing else: a value "
                                   "in the file would be seen",
                                   field.key),
                       "write ${secret:NAME}, NAME an environment variable");
    return false;
  }
  name = text.substr(kBegin.size(), text.size() - kBegin.size() - 1);
  return true;
}

bool Reader::choice(const Node& node, const Field& field, const std::vector<std::string>& names,
                    std::size_t& out) {
  if (!expect_scalar(node, field, "one of " + join(names, ", "))) return false;
  const auto found = std::ranges::find(names, node.text);
  if (found == names.end()) {
    return fail(node, field, "one of " + join(names, ", "), meant_name_hint(node.text, names));
  }
  out = static_cast<std::size_t>(found - names.begin());
  return true;
}

std::string number_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  std::array<char, 32> buffer{};
  char* const end = buffer.data() + buffer.size();
  // 1000000, not 1e+06; 0.0001, not 1e-04.
  const bool is_handy = value == 0 || (std::abs(value) >= 1e-4 && std::abs(value) < 1e9);
  const auto result = is_handy ? std::to_chars(buffer.data(), end, value, std::chars_format::fixed)
                               : std::to_chars(buffer.data(), end, value);
  return {buffer.data(), result.ptr};
}

}  // namespace trainctl::config
