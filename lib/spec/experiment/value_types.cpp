#include "spec/experiment/value_types.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "config/schema/dump.hpp"
#include "config/schema/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace trainctl::spec {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

// The largest unit comes first, so that a number is written in the unit that makes it shortest.
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

constexpr double kMostSeconds = 10.0 * 366 * 86'400;

std::optional<int> digits(std::string_view text) {
  return text.starts_with('-') ? std::nullopt : parse_number<int>(text);
}

// Parses DD:HH:MM:SS or HH:MM:SS; only the first part may exceed its clock limit.
std::optional<double> clock_form(std::string_view text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 3 && parts.size() != 4) return std::nullopt;
  constexpr std::array kSecondsPerPart{86'400.0, 3'600.0, 60.0, 1.0};
  constexpr std::array kLimits{366, 24, 60, 60};
  double seconds = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t unit = i + 4 - parts.size();
    const auto value = digits(parts[i]);
    if (!value || (i > 0 && *value >= kLimits[unit])) return std::nullopt;
    seconds += *value * kSecondsPerPart[unit];
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

// Parses 1h30m: numbers with units, from the largest unit down.
std::optional<double> unit_form(std::string_view text) {
  double seconds = 0;
  double last = 2 * unit_seconds('d');
  while (!text.empty()) {
    const std::size_t length = text.find_first_not_of("0123456789.");
    if (length == 0 || length == std::string_view::npos) return std::nullopt;
    const auto value = parse_number<double>(text.substr(0, length));
    const double unit = unit_seconds(text[length]);
    if (!value || unit == 0 || unit >= last) return std::nullopt;
    seconds += *value * unit;
    last = unit;
    text.remove_prefix(length + 1);
  }
  return seconds;
}

void add_leaves(const config::Node& map, const FallbackChange& above,
                std::vector<FallbackChange>& out) {
  for (const config::Entry& entry : map.entries) {
    FallbackChange change = above;
    change.text += (above.text.empty() ? "" : ".") + entry.key;
    change.places.insert(change.places.end(), config::split_path(entry.key).size(),
                         entry.key_position);
    if (entry.value.type == config::Node::Type::map) {
      add_leaves(entry.value, change, out);
      continue;
    }
    change.text += "=" + config::flow_text(entry.value, config::References::plain);
    change.places.push_back(entry.value.position);
    out.push_back(std::move(change));
  }
}

void add_changes(const config::Node& part, std::vector<FallbackChange>& out) {
  if (part.type == config::Node::Type::map) return add_leaves(part, {}, out);
  out.push_back({part.text, {part.position}});
}

}  // namespace

std::optional<Budget> parse_budget(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const double number = parse_number<double>(text.substr(0, digits)).value_or(0);
  if (number <= 0) return std::nullopt;
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

std::optional<double> parse_duration(std::string_view text) {
  const auto seconds =
      text.find(':') != std::string_view::npos ? clock_form(text) : unit_form(text);
  return seconds && *seconds > 0 && *seconds <= kMostSeconds ? seconds : std::nullopt;
}

config::Position FallbackChange::place_of(int column) const {
  const auto before = static_cast<std::size_t>(std::max(column - 1, 0));
  const std::size_t equals = text.find('=');
  if (before >= equals) return places.back();
  const auto dots = static_cast<std::size_t>(std::ranges::count(text.substr(0, before), '.'));
  return places[std::min(dots, places.size() - 1)];
}

std::vector<FallbackChange> changes_of(const config::Node& entry) {
  std::vector<FallbackChange> changes;
  if (entry.type != config::Node::Type::list) {
    add_changes(entry, changes);
  } else {
    for (const config::Node& part : entry.items) add_changes(part, changes);
  }
  return changes;
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
          "'{}' must be a percentage above 0% and up to 100%, or a size with its unit, got '{}'",
          field.key, printable(text)),
      bare ? fmt::format("write {}GiB, {}MB or {}%", text, text, text) : "write it as 50% or 8GiB");
}

void Codec<spec::Devices>::read(Reader& reader, const Node& node, const Field& field,
                                spec::Devices& out) {
  out = {};
  const bool is_all = node.type == Node::Type::scalar && !node.quoted && node.text == "-1";
  if (is_all || Reader::is_auto(node)) return;
  if (node.type != Node::Type::list) {
    int count = 0;
    Codec<int>::read(reader, node, field, count);
    out.value = count;
    return;
  }
  Field gpu = field;
  gpu.minimum = Bound{.value = 0, .inclusive = true};
  for (const Node& item : node.items) {
    int number = 0;
    Codec<int>::read(reader, item, gpu, number);
    if (std::ranges::find(out.gpus, number) != out.gpus.end())
      reader.diagnostics().error(item.position,
                                 fmt::format("'{}' lists GPU {} twice", field.key, number),
                                 "write each number once");
    out.gpus.push_back(number);
  }
  if (out.gpus.empty())
    reader.diagnostics().error(node.position, fmt::format("'{}' lists no GPU", field.key),
                               "write auto, a number of devices, or GPUs such as [0, 2]");
  out.value = static_cast<int>(out.gpus.size());
}

Node Codec<spec::Devices>::write(const spec::Devices& devices) {
  if (devices.is_list()) return Codec<std::vector<int>>::write(devices.gpus);
  return devices.value ? Codec<int>::write(*devices.value) : Node::scalar("auto");
}

void Codec<spec::Limit>::read(Reader& reader, const Node& node, const Field& field,
                              spec::Limit& out) {
  const bool has_point =
      node.type == Node::Type::scalar && node.text.find_first_of(".eE") != std::string::npos;
  if (!has_point) {
    std::int64_t batches = 0;
    if (reader.integer(node, field, 0, std::numeric_limits<std::int64_t>::max(), batches))
      out = {.batches = batches};
    return;
  }
  double fraction = 0;
  if (!reader.number(node, field, fraction)) return;
  if (fraction > 1)
    return reader.diagnostics().error(
        node.position,
        fmt::format("'{}' must be an integer or a fraction up to 1.0, got '{}'", field.key,
                    node.text),
        fmt::format("write {:.0f} for a number", fraction));
  out = {.fraction = fraction};
}

Node Codec<spec::Limit>::write(const spec::Limit& limit) {
  if (limit.batches) return Node::scalar(std::to_string(*limit.batches));
  const std::string text = number_text(limit.fraction);
  return Node::scalar(text.find_first_of(".e") == std::string::npos ? text + ".0" : text);
}

FieldType Codec<spec::Fallback>::type() {
  FieldType text = Codec<std::string>::type();
  text.accepts_map = true;
  FieldType type = Codec<OneOrMore<std::string>>::type();
  type.item = std::make_shared<const FieldType>(std::move(text));
  return type;
}

void Codec<spec::Fallback>::read(Reader& reader, const Node& node, const Field& field,
                                 spec::Fallback& out) {
  const std::vector<Node> parts = node.type == Node::Type::list ? node.items : std::vector{node};
  out.values.clear();
  for (const Node& part : parts) {
    if (part.type == Node::Type::map) {
      for (spec::FallbackChange& change : spec::changes_of(part))
        out.values.push_back(std::move(change.text));
    } else {
      Codec<std::string>::read(reader, part, field, out.values.emplace_back());
    }
  }
}

Node Codec<spec::Fallback>::write(const spec::Fallback& value) {
  return Codec<OneOrMore<std::string>>::write({value.values});
}

const std::shared_ptr<const Schema>& Codec<spec::Weights>::schema() {
  static const auto shared = std::make_shared<const Schema>(schema_of<spec::Weights>());
  return shared;
}

FieldType Codec<spec::Weights>::type() {
  return {.type = ValueType::object,
          .item = std::make_shared<const FieldType>(Codec<std::filesystem::path>::type()),
          .accepts_one = true,
          .object = schema()};
}

void Codec<spec::Weights>::read(Reader& reader, const Node& node, const Field& field,
                                spec::Weights& out) {
  Node section = node;
  if (node.type == Node::Type::scalar) {
    section = Node::map({{"path", node.position, node}});
    section.position = node.position;
  }
  reader.object(section, *schema(), "'" + field.key + "'", &out);
  const Node* path = child(section, "path");
  if (path != nullptr && path->text.starts_with("torchvision/")) out.path = path->text;
}

Node Codec<spec::Weights>::write(const spec::Weights& value) {
  return write_options(*schema(), &value);
}

}  // namespace trainctl::config
