#include "config/schema/schema.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainctl::config {
namespace {

std::string shown(double bound) {
  return std::nearbyint(bound) == bound && std::abs(bound) < 1e15 ? fmt::format("{:.0f}", bound)
                                                                  : fmt::format("{}", bound);
}

void each_of(const Schema& schema, const std::function<void(const Field&, const Node&)>& visit) {
  const std::shared_ptr<void> defaults = schema.make_default();
  for (const Field& field : schema.fields) visit(field, field.write(defaults.get()));
}

std::string plural(const FieldType& item, const Vocabulary& vocabulary) {
  switch (item.type) {
    case ValueType::integer: return "integers";
    case ValueType::number: return "numbers";
    case ValueType::boolean: return "booleans";
    case ValueType::string: return item.accepts_map ? "texts and maps" : "texts";
    case ValueType::path: return "paths";
    case ValueType::object: return "sections";
    default: return type_text(item, vocabulary);
  }
}

std::string plain_type_text(const FieldType& type, const Vocabulary& vocabulary) {
  switch (type.type) {
    case ValueType::boolean: return "true or false";
    case ValueType::integer: return type.accepts_list ? "integer or list of integers" : "integer";
    case ValueType::number:
      return type.choices.empty() ? "number" : "number or text such as " + type.choices.front();
    case ValueType::string: return type.accepts_map ? "text or map" : "text";
    case ValueType::path: return "path, relative to the file that contains it";
    case ValueType::choice: return "one of " + join(type.choices, ", ");
    case ValueType::list:
      return fmt::format("{}list of {}{}",
                         type.accepts_one ? plain_type_text(*type.item, vocabulary) + " or " : "",
                         type.length ? std::to_string(*type.length) + " " : "",
                         plural(*type.item, vocabulary));
    case ValueType::map: return "map of " + plural(*type.item, vocabulary);
    case ValueType::object:
      return type.accepts_one ? "section or " + plain_type_text(*type.item, vocabulary) : "section";
    case ValueType::stage:
      return fmt::format("{}: {}", type.stage_kind, join(vocabulary.names(type.stage_kind), ", "));
  }
  return "";
}

std::optional<FieldsOfMap> fields_of_stage(const Node& map, const std::string& kind,
                                           const Schema* extra_fields,
                                           const Vocabulary& vocabulary) {
  const Node* type = map.find("type");
  const StageType* stage = vocabulary.find(kind, type == nullptr ? "" : type->text);
  return stage == nullptr ? std::nullopt : std::optional(FieldsOfMap(*stage, extra_fields));
}

}  // namespace

const Field* Schema::find(std::string_view key) const {
  const auto found = std::ranges::find(fields, key, &Field::key);
  return found == fields.end() ? nullptr : &*found;
}

std::vector<std::string> Schema::keys() const {
  std::vector<std::string> keys;
  keys.reserve(fields.size());
  for (const Field& field : fields) keys.push_back(field.key);
  return keys;
}

Node write_options(const Schema& schema, const void* options) {
  Node map = schema.inline_stage ? schema.inline_stage->write(options) : Node::map();
  if (map.is_null()) return map;  // no stage was chosen
  for (const Field& field : schema.fields)
    map.entries.push_back({field.key, {}, field.write(options)});
  return map;
}

void Vocabulary::add(StageType type) {
  auto& names = kinds_[type.kind];
  ENSURE(config, !names.contains(type.name), "the {} '{}' is defined twice", type.kind, type.name);
  std::string name = type.name;
  names.emplace(std::move(name), std::move(type));
}

void Vocabulary::add(std::string_view kind, std::string_view name, Schema (*describe)(),
                     const std::type_info& options) {
  add(StageType{std::string(kind), std::string(name), describe(), options});
}

const StageType* Vocabulary::find(std::string_view kind, std::string_view name) const {
  const auto names = kinds_.find(kind);
  if (names == kinds_.end()) return nullptr;
  const auto found = names->second.find(name);
  return found == names->second.end() ? nullptr : &found->second;
}

std::vector<std::string> Vocabulary::kinds() const {
  std::vector<std::string> kinds;
  for (const auto& [kind, names] : kinds_) kinds.push_back(kind);
  return kinds;
}

std::vector<std::string> Vocabulary::names(std::string_view kind) const {
  std::vector<std::string> names;
  if (const auto found = kinds_.find(kind); found != kinds_.end()) {
    for (const auto& [name, type] : found->second) names.push_back(name);
  }
  return names;
}

std::string lower_text(const Bound& bound) {
  return fmt::format("{} {}", bound.inclusive ? "at least" : "above", shown(bound.value));
}

std::string upper_text(const Bound& bound) {
  return fmt::format("{} {}", bound.inclusive ? "at most" : "below", shown(bound.value));
}

std::string bounds_text(const Field& field) {
  std::string text = field.minimum ? lower_text(*field.minimum) : "";
  if (field.minimum && field.maximum) text += " and ";
  return field.maximum ? text + upper_text(*field.maximum) : text;
}

std::string type_text(const FieldType& type, const Vocabulary& vocabulary) {
  return plain_type_text(type, vocabulary) + (type.accepts_auto ? ", or auto" : "") +
         (type.nullable ? ", or ~ for none" : "");
}

std::vector<std::string> values_of(const FieldType& type, const Vocabulary& vocabulary) {
  std::vector<std::string> values = type.choices;
  if (type.type == ValueType::boolean) values = {"true", "false"};
  if (type.type == ValueType::stage) values = vocabulary.names(type.stage_kind);
  if (type.type == ValueType::object && type.object->inline_stage) {
    values = vocabulary.names(type.object->inline_stage->type.stage_kind);
  }
  if (type.accepts_auto) values.emplace_back("auto");
  return values;
}

std::string short_form_key(const FieldType& type) {
  if (type.type == ValueType::stage) return "type";
  if (type.type != ValueType::object) return "";
  if (type.object->inline_stage) return "type";
  if (!type.accepts_one) return "";
  const auto required = std::ranges::find_if(type.object->fields, &Field::required);
  ASSERT(required != type.object->fields.end());
  return required->key;
}

void expand_short_form(Node& value, const FieldType& type) {
  if (value.type != Node::Type::scalar) return;
  const std::string key = short_form_key(type);
  const bool is_list = type.type == ValueType::list && type.accepts_one;
  if (key.empty() && !is_list) return;
  Node wrapped = key.empty() ? Node::list() : Node::map();
  wrapped.position = value.position;
  if (is_list)
    wrapped.items.push_back(std::move(value));
  else
    wrapped.entries.push_back({key, wrapped.position, std::move(value)});
  value = std::move(wrapped);
}

const Field* FieldsOfMap::find(std::string_view key) const {
  const Field* own = own_->find(key);
  return own == nullptr && extra_fields_ != nullptr ? extra_fields_->find(key) : own;
}

void FieldsOfMap::each(const std::function<void(const Field&, const Node&)>& visit) const {
  each_of(*own_, visit);
  if (extra_fields_ != nullptr) each_of(*extra_fields_, visit);
}

std::optional<FieldsOfMap> fields_of_struct(const Node& map, const Schema& schema,
                                            const Vocabulary& vocabulary) {
  if (!schema.inline_stage) return FieldsOfMap(schema);
  return fields_of_stage(map, schema.inline_stage->type.stage_kind, &schema, vocabulary);
}

std::optional<FieldsOfMap> fields_below(const Node& value, const FieldType& type,
                                        const Vocabulary& vocabulary) {
  if (value.type != Node::Type::map) return std::nullopt;
  if (type.type == ValueType::object) return fields_of_struct(value, *type.object, vocabulary);
  if (type.type != ValueType::stage) return std::nullopt;
  return fields_of_stage(value, type.stage_kind, nullptr, vocabulary);
}

}  // namespace trainctl::config
