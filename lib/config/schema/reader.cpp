#include "config/schema/reader.hpp"

#include "base/strings.hpp"
#include "base/url.hpp"
#include "config/schema/describe.hpp"
#include "config/wording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace trainctl::config {
namespace {

std::string spoken(std::string kind) {
  if (kind == "stopper") return "early_stopping";  // the only key with a stage of this kind
  std::ranges::replace(kind, '_', ' ');
  return kind;
}

// Returns whether the map only has keys of the struct around the stage, and therefore no stage.
bool names_no_stage(const Node& map, const Schema& schema) {
  return map.type == Node::Type::map && std::ranges::all_of(map.entries, [&](const Entry& entry) {
           return schema.find(entry.key) != nullptr;
         });
}

// Returns the section that has `key`: 'max_epochs' at the top level belongs to 'trainer'.
const Field* section_with(const Schema& schema, const std::string& key) {
  const auto found = std::ranges::find_if(schema.fields, [&](const Field& field) {
    return field.type.object && field.type.object->find(key) != nullptr;
  });
  return found == schema.fields.end() ? nullptr : &*found;
}

// The functions below define what each scalar type accepts, and the hints for spellings that YAML
// 1.1, Python and other trainers accept.

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

// Parses decimal, 0x1F or 0o17, with an optional sign.
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

// Returns what to write instead of a number that YAML 1.1, Python or a spreadsheet accepts.
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
  if (text == "nan" || text == "NaN") return "NaN is written .nan in YAML";
  if (text == "inf" || text == "-inf" || text == "Infinity")
    return "infinity is written .inf in YAML";
  if (text.find('/') != std::string::npos || text.find('*') != std::string::npos)
    return "write the result: arithmetic is not supported";
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

void Reader::object(const Node& node, const Schema& schema, const std::string& subject,
                    void* options) {
  if (node.broken) return;
  if (schema.inline_stage && names_no_stage(node, schema)) {
    // The checks of the experiment decide whether a stage is required here.
  } else if (schema.inline_stage) {
    extra_fields_ = &schema;
    schema.inline_stage->read(*this, node, *schema.inline_stage, options);
    if (node.type != Node::Type::map) return;
  } else if (node.type != Node::Type::map) {
    return diagnostics_.error(
        node.position,
        fmt::format("{} must be a map of options, got {}", subject, describe_value(node)),
        fmt::format("expected keys such as {}", list_some(schema.keys())));
  } else {
    reject_unknown(node, schema, subject, nullptr, nullptr);
  }
  fields(node, schema, subject, options);
}

void Reader::fields(const Node& map, const Schema& schema, const std::string& subject,
                    void* options) {
  for (const Field& field : schema.fields) {
    const Node* value = map.find(field.key);
    const bool absent =
        value == nullptr || (value->is_null() && !value->broken && !field.type.nullable);
    if (absent && field.required) {
      missing(map, field, subject);
    } else if (!absent && !value->broken) {
      field.read(*this, *value, field, options);
    }
  }
}

void Reader::missing(const Node& map, const Field& field, const std::string& subject) {
  std::string sample = field.example.empty() ? "..." : field.example;
  if (field.type.type == ValueType::stage) sample = usual_stage(vocabulary_, field.type.stage_kind);
  diagnostics_.error(map.position, fmt::format("{} needs '{}'", subject, field.key),
                     fmt::format("add '{}: {}': {}", field.key, sample, field.help));
}

void Reader::reject_unknown(const Node& map, const Schema& schema, const std::string& subject,
                            const Schema* extra_fields, const StageType* type) {
  std::vector<std::string> keys = schema.keys();
  if (extra_fields != nullptr) {
    for (const std::string& key : extra_fields->keys()) keys.push_back(key);
  }
  for (const Entry& entry : map.entries) {
    const bool known = schema.find(entry.key) != nullptr ||
                       (extra_fields != nullptr && extra_fields->find(entry.key) != nullptr);
    if (known) continue;
    std::string hint = find_alias(entry.key) == nullptr
                           ? stage_elsewhere_hint(vocabulary_, entry.key)
                           : std::string();
    if (hint.empty()) hint = unknown_key_hint(entry.key, keys);
    if (const Field* section = section_with(schema, entry.key)) {
      hint = fmt::format("the key belongs to '{0}': write '{0}.{1}'", section->key, entry.key);
    }
    if (const auto others =
            type == nullptr ? std::vector<std::string>{} : others_with(*type, entry.key);
        !others.empty()) {
      hint = fmt::format("the key is an option of {}; options of {}: {}", join(others, ", "),
                         type->name, keys.empty() ? "none" : list_some(keys));
    }
    diagnostics_.error(entry.key_position,
                       fmt::format("unknown key {} in {}", quote(entry.key), subject),
                       std::move(hint));
  }
}

std::vector<std::string> Reader::others_with(const StageType& type, const std::string& key) const {
  std::vector<std::string> others;
  for (const std::string& name : vocabulary_.names(type.kind)) {
    if (vocabulary_.find(type.kind, name)->schema.find(key) != nullptr) others.push_back(name);
  }
  return others;
}

bool Reader::stage(const Node& node, const Field& field, const std::string& kind, Stage& out) {
  const Schema* extra_fields = std::exchange(extra_fields_, nullptr);
  if (node.broken) return false;
  const StageType* type = nullptr;
  Position position = node.position;
  if (node.type == Node::Type::scalar) {
    type = known_type(node, kind);
  } else if (node.type == Node::Type::map) {
    type = type_of(node, kind);
    position = type != nullptr ? node.find("type")->position : position;
  } else {
    return fail(node, field, "a name or a map with 'type'",
                fmt::format("write a name such as '{0}', or {{type: {0}, ...}}",
                            usual_stage(vocabulary_, kind)));
  }
  if (type == nullptr) return false;
  const std::string subject = fmt::format("{} '{}'", spoken(kind), type->name);
  Node options = node.type == Node::Type::map ? node : Node::map();
  options.position = position;
  std::erase_if(options.entries, [](const Entry& entry) { return entry.key == "type"; });
  reject_unknown(options, type->schema, subject, extra_fields, type);
  const std::shared_ptr<void> values = type->schema.make_default();
  fields(options, type->schema, subject, values.get());
  out = {kind,     type->name,
         values,   type->options_type,
         position, std::make_shared<const Schema>(type->schema)};
  return true;
}

const StageType* Reader::type_of(const Node& map, const std::string& kind) {
  const Node* type = map.find("type");
  if (type != nullptr && type->broken) return nullptr;
  if (type != nullptr && type->type == Node::Type::scalar) return known_type(*type, kind);
  const std::vector<std::string> names = vocabulary_.names(kind);
  if (type != nullptr && !type->is_null()) {
    diagnostics_.error(
        type->position,
        fmt::format("the type of {} must be a name, got {}", spoken(kind), describe_value(*type)),
        fmt::format("expected one of: {}", list_some(names)));
    return nullptr;
  }
  for (const Entry& entry : map.entries) {
    const Alias* alias = find_alias(entry.key);
    if (alias == nullptr || alias->key != "type") continue;
    diagnostics_.error(entry.key_position,
                       fmt::format("{} has no 'type', got {}", spoken(kind), quote(entry.key)),
                       fmt::format("write 'type: ...', one of: {}", list_some(names)));
    return nullptr;
  }
  std::vector<std::string> keys;
  for (const Entry& entry : map.entries) keys.push_back(entry.key);
  diagnostics_.error(map.position, fmt::format("{} has no 'type'", spoken(kind)),
                     fmt::format("add 'type: {}'; one of: {}", usual_stage(vocabulary_, kind, keys),
                                 list_some(names)));
  return nullptr;
}

const StageType* Reader::known_type(const Node& name, const std::string& kind) {
  const StageType* type = vocabulary_.find(kind, name.text);
  if (type == nullptr) {
    std::string hint = stage_elsewhere_hint(vocabulary_, name.text, kind);
    if (hint.empty()) hint = unknown_name_hint(name.text, vocabulary_.names(kind));
    diagnostics_.error(name.position, fmt::format("unknown {} {}", spoken(kind), quote(name.text)),
                       std::move(hint));
  }
  return type;
}

bool Reader::expect_list(const Node& node, const Field& field, std::size_t length) {
  if (node.broken) return false;
  if (node.type != Node::Type::list) {
    const bool wrap = node.type == Node::Type::scalar && length < 2;
    return fail(node, field, length == 0 ? "a list" : fmt::format("a list of {} values", length),
                wrap ? fmt::format("write [{}]", printable(node.text)) : "");
  }
  if (length != 0 && node.items.size() != length) {
    return fail(node, field, fmt::format("a list of {} values", length));
  }
  if (field.not_empty && node.items.empty())
    return fail(node, field, "a list with at least one entry");
  return true;
}

bool Reader::expect_map(const Node& node, const Field& field) {
  if (node.broken) return false;
  return node.type == Node::Type::map || fail(node, field, "a map", "write {key: value}");
}

bool Reader::fail(const Node& node, const Field& field, const std::string& wanted,
                  const std::string& hint) {
  const std::string or_auto = field.type.accepts_auto ? ", or auto" : "";
  diagnostics_.error(
      node.position,
      fmt::format("'{}' must be {}{}, got {}", field.key, wanted, or_auto, describe_value(node)),
      hint.empty() ? fmt::format("{}: {}", field.key, field.help) : hint);
  return false;
}

bool Reader::is_auto(const Node& node) {
  return node.type == Node::Type::scalar && !node.quoted && node.text == "auto";
}

bool Reader::expect_scalar(const Node& node, const Field& field, const std::string& wanted) {
  if (node.broken) return false;
  if (node.type != Node::Type::scalar) return fail(node, field, wanted);
  return !refuse_secret(node, field);
}

// A secret is looked up where it is used; any other field would use the reference as text.
bool Reader::refuse_secret(const Node& node, const Field& field) {
  if (!is_secret(node)) return false;
  diagnostics_.error(
      node.position,
      fmt::format("'{}' must not be a secret: its value is written into the run folder", field.key),
      "write the value, or ${env:NAME} for a public one");
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
  const std::string lower = lower_case(node.text);
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
    return fail(node, field, "a number with a magnitude from 2e-308 to 1.7e308");
  if (!inside(*value, field.minimum, field.maximum)) {
    return fail(node, field, bounds_text(field));
  }
  out = *value;
  return true;
}

bool Reader::string(const Node& node, const Field& field, std::string& out) {
  if (!expect_scalar(node, field, "a text")) return false;
  if (field.not_empty && node.text.empty()) return fail(node, field, "a non-empty text");
  out = node.text;
  return true;
}

bool Reader::path(const Node& node, const Field& field, std::filesystem::path& out) {
  if (!expect_scalar(node, field, "a path")) return false;
  if (node.text.empty()) return fail(node, field, "a non-empty path");
  if (node.text.find('\0') != std::string::npos)
    return fail(node, field, "a path without NUL bytes");
  if (node.text == "~" || node.text.starts_with("~/")) {
    return fail(node, field, "a path without '~'",
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
    place.length = kHiddenLine;  // the scan for secrets does not detect every way to write one
    diagnostics_.error(place,
                       fmt::format("'{}' must be a reference to a secret and nothing else, so that "
                                   "no secret is in the file",
                                   field.key),
                       "write ${secret:NAME} with the name of an environment variable");
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
  // Writes 1000000 instead of 1e+06, and 0.0001 instead of 1e-04.
  const bool is_handy = value == 0 || (std::abs(value) >= 1e-4 && std::abs(value) < 1e9);
  const auto result = is_handy ? std::to_chars(buffer.data(), end, value, std::chars_format::fixed)
                               : std::to_chars(buffer.data(), end, value);
  return {buffer.data(), result.ptr};
}

Node write_stage(const Stage& stage) {
  if (!stage) return {};
  Node map = write_options(*stage.schema, stage.options.get());
  map.entries.insert(map.entries.begin(), Entry{"type", {}, Node::scalar(stage.type, true)});
  return map;
}

}  // namespace trainctl::config
