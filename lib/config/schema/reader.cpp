#include "config/schema/reader.hpp"

#include "base/strings.hpp"
#include "config/wording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainctl::config {
namespace {

std::string spoken(std::string kind) {
  for (char& c : kind) {
    if (c == '_') c = ' ';
  }
  return kind;
}

// Whether the map has only keys of the struct around the stage, and so names no stage.
bool names_no_stage(const Node& map, const Schema& schema) {
  return map.type == Node::Type::map && std::ranges::all_of(map.entries, [&](const Entry& entry) {
           return schema.find(entry.key) != nullptr;
         });
}

// The key that holds `key` one level down: 'max_epochs' at the top belongs to 'trainer'.
const Field* section_with(const Schema& schema, const std::string& key) {
  for (const Field& field : schema.fields) {
    if (field.type.object && field.type.object->find(key) != nullptr) return &field;
  }
  return nullptr;
}

}  // namespace

void Reader::object(const Node& node, const Schema& schema, const std::string& subject,
                    void* options) {
  if (node.broken) return;
  if (schema.inline_stage && names_no_stage(node, schema)) {
    // Whether it needs one is for the checks of the experiment.
  } else if (schema.inline_stage) {
    beside_ = &schema;
    schema.inline_stage->read(*this, node, *schema.inline_stage, options);
    if (node.type != Node::Type::map) return;
  } else if (node.type != Node::Type::map) {
    diagnostics_.error(
        node.position,
        fmt::format("{} must be a map of options, found {}", subject, describe_value(node)),
        fmt::format("expected keys such as {}", list_some(schema.keys())));
    return;
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
  if (field.type.type == ValueType::stage) sample = example_name(field.type.stage_kind);
  diagnostics_.error(map.position, fmt::format("{} needs '{}'", subject, field.key),
                     fmt::format("add '{}: {}': {}", field.key, sample, field.help));
}

void Reader::reject_unknown(const Node& map, const Schema& schema, const std::string& subject,
                            const Schema* beside, const StageType* type) {
  std::vector<std::string> keys = schema.keys();
  if (beside != nullptr) {
    for (const std::string& key : beside->keys()) keys.push_back(key);
  }
  for (const Entry& entry : map.entries) {
    const bool known = schema.find(entry.key) != nullptr ||
                       (beside != nullptr && beside->find(entry.key) != nullptr);
    if (known) continue;
    std::string hint = find_alias(entry.key) == nullptr
                           ? stage_elsewhere_hint(vocabulary_, entry.key)
                           : std::string();
    if (hint.empty()) hint = unknown_key_hint(entry.key, keys);
    if (const Field* section = section_with(schema, entry.key)) {
      hint = fmt::format("it belongs below '{0}': write '{0}.{1}'", section->key, entry.key);
    }
    if (const auto others =
            type == nullptr ? std::vector<std::string>{} : others_with(*type, entry.key);
        !others.empty()) {
      hint = fmt::format("it is an option of {}; {} has: {}", join(others, ", "), type->name,
                         keys.empty() ? "none" : list_some(keys));
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
  const Schema* beside = std::exchange(beside_, nullptr);
  if (node.broken) return false;
  const StageType* type = nullptr;
  Position position = node.position;
  if (node.type == Node::Type::scalar) {
    type = known_type(node, kind);
  } else if (node.type == Node::Type::map) {
    type = type_of(node, kind);
    position = type != nullptr ? node.find("type")->position : position;
  } else {
    return fail(
        node, field, "a stage",
        fmt::format("write a name such as '{0}', or {{type: {0}, ...}}", example_name(kind)));
  }
  if (type == nullptr) return false;
  const std::string subject = fmt::format("{} '{}'", spoken(kind), type->name);
  Node options = node.type == Node::Type::map ? node : Node::map();
  options.position = position;
  std::erase_if(options.entries, [](const Entry& entry) { return entry.key == "type"; });
  reject_unknown(options, type->schema, subject, beside, type);
  const std::shared_ptr<void> values = type->schema.make_default();
  fields(options, type->schema, subject, values.get());
  out = {kind,     type->name,
         values,   type->options_type,
         position, std::make_shared<const Schema>(type->schema)};
  return true;
}

std::string Reader::example_name(const std::string& kind) const {
  return usual_stage(vocabulary_, kind);
}

const StageType* Reader::type_of(const Node& map, const std::string& kind) {
  const Node* type = map.find("type");
  if (type != nullptr && type->broken) return nullptr;
  if (type != nullptr && type->type == Node::Type::scalar) return known_type(*type, kind);
  const std::vector<std::string> names = vocabulary_.names(kind);
  if (type != nullptr && !type->is_null()) {
    diagnostics_.error(
        type->position,
        fmt::format("the type of {} must be a name, found {}", spoken(kind), describe_value(*type)),
        fmt::format("expected one of: {}", list_some(names)));
    return nullptr;
  }
  for (const Entry& entry : map.entries) {
    const Alias* alias = find_alias(entry.key);
    if (alias == nullptr || alias->key != "type") continue;
    diagnostics_.error(entry.key_position,
                       fmt::format("{} has no 'type', found {}", spoken(kind), quote(entry.key)),
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
    return fail(node, field, length == 0 ? "a list" : fmt::format("a list of {}", length),
                wrap ? fmt::format("write [{}]", printable(node.text)) : "");
  }
  if (length != 0 && node.items.size() != length) {
    return fail(node, field, fmt::format("a list of {}", length));
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
      fmt::format("'{}' must be {}{}, found {}", field.key, wanted, or_auto, describe_value(node)),
      hint.empty() ? fmt::format("{}: {}", field.key, field.help) : hint);
  return false;
}

Node write_stage(const Stage& stage) {
  if (!stage) return {};
  Node map = write_options(*stage.schema, stage.options.get());
  map.entries.insert(map.entries.begin(), Entry{"type", {}, Node::scalar(stage.type, true)});
  return map;
}

}  // namespace trainctl::config
