#include "config/json_schema.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

namespace trainctl::config {
namespace {

constexpr auto kDialect = "https://json-schema.org/draft/2020-12/schema";

Json scalar_json(const Node& node) {
  const std::string& text = node.text;
  if (node.quoted) return text;
  if (text == "true" || text == "false") return text == "true";
  const char* end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto read = std::from_chars(text.data(), end, integer); read.ec == std::errc() && read.ptr == end)
    return integer;
  double number = 0;
  const bool shaped = text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  if (const auto read = std::from_chars(text.data(), end, number); shaped && read.ec == std::errc() && read.ptr == end)
    return number;
  return text;
}

Json def_ref(const std::string& name) { return {{"$ref", "#/$defs/" + name}}; }

void add_bounds(Json& number, const Field& field) {
  const auto set = [&](const std::optional<Bound>& bound, const char* inclusive, const char* exclusive) {
    if (!bound) return;
    const bool whole = std::nearbyint(bound->value) == bound->value && std::abs(bound->value) < 1e15;
    number[bound->inclusive ? inclusive : exclusive] =
        whole ? Json(static_cast<std::int64_t>(bound->value)) : Json(bound->value);
  };
  set(field.minimum, "minimum", "exclusiveMinimum");
  set(field.maximum, "maximum", "exclusiveMaximum");
}

Json type_json(const FieldType& type, const Field& field, const Vocabulary& vocabulary);
Json struct_json(const Schema& schema, const Vocabulary& vocabulary);

void add_field(Json& object, const Field& field, const Node& usual, const Vocabulary& vocabulary) {
  Json json = type_json(field.type, field, vocabulary);
  json["description"] = field.help;
  if (!field.required && !usual.is_null()) json["default"] = to_json(usual);
  if (!field.example.empty()) json["examples"] = Json::array({field.example});
  object["properties"][field.key] = std::move(json);
  if (field.required) object["required"].push_back(field.key);
}

void add_fields(Json& object, const Schema& schema, const Vocabulary& vocabulary) {
  const std::shared_ptr<void> defaults = schema.make_default();
  for (const Field& field : schema.fields) add_field(object, field, field.write(defaults.get()), vocabulary);
}

Json empty_object(const std::string& summary) {
  return {
      {"type", "object"}, {"description", summary}, {"additionalProperties", false}, {"properties", Json::object()}};
}

Json stage_json(const StageType& stage, const Schema* beside, const Vocabulary& vocabulary) {
  Json object = empty_object(stage.schema.summary);
  object["properties"]["type"] = {{"const", stage.name}};
  object["required"] = {"type"};
  add_fields(object, stage.schema, vocabulary);
  if (beside != nullptr) add_fields(object, *beside, vocabulary);
  return object;
}

// A name alone, where no option is required, or the long form of each type.
Json kind_json(const std::string& kind, const Schema* beside, const Vocabulary& vocabulary) {
  Json names = Json::array();
  Json forms = Json::array();
  for (const std::string& name : vocabulary.names(kind)) {
    const StageType& stage = *vocabulary.find(kind, name);
    if (std::ranges::none_of(stage.schema.fields, &Field::required)) names.push_back(name);
    forms.push_back(beside == nullptr ? def_ref(kind + "." + name) : stage_json(stage, beside, vocabulary));
  }
  if (!names.empty()) forms.insert(forms.begin(), Json{{"enum", std::move(names)}});
  return {{"oneOf", std::move(forms)}};
}

Json struct_json(const Schema& schema, const Vocabulary& vocabulary) {
  if (schema.inline_stage) return kind_json(schema.inline_stage->type.stage_kind, &schema, vocabulary);
  Json object = empty_object(schema.summary);
  add_fields(object, schema, vocabulary);
  return object;
}

Json plain_type_json(const FieldType& type, const Field& field, const Vocabulary& vocabulary) {
  switch (type.type) {
    case ValueType::boolean: return {{"type", "boolean"}};
    case ValueType::integer:
    case ValueType::number: {
      Json number{{"type", type.type == ValueType::integer ? "integer" : "number"}};
      add_bounds(number, field);
      return number;
    }
    case ValueType::string:
    case ValueType::path: {
      Json text{{"type", "string"}};
      if (field.not_empty || type.type == ValueType::path) text["minLength"] = 1;
      return text;
    }
    case ValueType::choice: return {{"enum", type.choices}};
    case ValueType::list: {
      Json list{{"type", "array"}, {"items", type_json(*type.item, field, vocabulary)}};
      if (type.length) list["minItems"] = list["maxItems"] = *type.length;
      if (field.not_empty) list["minItems"] = 1;
      return list;
    }
    case ValueType::map:
      return {{"type", "object"}, {"additionalProperties", type_json(*type.item, field, vocabulary)}};
    case ValueType::object: return struct_json(*type.object, vocabulary);
    case ValueType::stage: return def_ref(type.stage_kind);
  }
  return {};
}

Json type_json(const FieldType& type, const Field& field, const Vocabulary& vocabulary) {
  Json plain = plain_type_json(type, field, vocabulary);
  const bool is_typed_scalar = type.type == ValueType::boolean || type.type == ValueType::integer ||
                               type.type == ValueType::number || type.type == ValueType::choice;
  Json any = Json::array({std::move(plain)});
  if (type.accepts_one) any.push_back(type_json(*type.item, field, vocabulary));
  if (type.accepts_auto) any.push_back({{"const", "auto"}});
  if (type.nullable) any.push_back({{"type", "null"}});
  if (is_typed_scalar) any.push_back(def_ref("reference"));
  return any.size() == 1 ? any[0] : Json{{"anyOf", std::move(any)}};
}

Json definitions(const Vocabulary& vocabulary) {
  Json all;
  all["reference"] = {
      {"type", "string"}, {"pattern", R"(^\$\{.*\}$)"}, {"description", "A reference such as ${env:NAME,default}."}};
  for (const std::string& kind : vocabulary.kinds()) {
    all[kind] = kind_json(kind, nullptr, vocabulary);
    for (const std::string& name : vocabulary.names(kind)) {
      all[kind + "." + name] = stage_json(*vocabulary.find(kind, name), nullptr, vocabulary);
    }
  }
  return all;
}

Json document(Json body, const Vocabulary& vocabulary) {
  Json schema{{"$schema", kDialect}};
  schema.update(body);
  schema["$defs"] = definitions(vocabulary);
  return schema;
}

}  // namespace

Json to_json(const Node& node) {
  switch (node.type) {
    case Node::Type::null: return nullptr;
    case Node::Type::scalar: return scalar_json(node);
    case Node::Type::list: {
      Json list = Json::array();
      for (const Node& item : node.items) list.push_back(to_json(item));
      return list;
    }
    case Node::Type::map: {
      Json map = Json::object();
      for (const Entry& entry : node.entries) map[entry.key] = to_json(entry.value);
      return map;
    }
  }
  return nullptr;
}

Json json_schema(const Schema& schema, const Vocabulary& vocabulary) {
  Json body = struct_json(schema, vocabulary);
  const Json file{{"type", "string"}};
  body["properties"]["extends"] = {{"description", "Base files, laid under this one in order."},
                                   {"anyOf", Json::array({file, Json{{"type", "array"}, {"items", file}}})}};
  return document(std::move(body), vocabulary);
}

Json json_schema(const StageType& stage, const Vocabulary& vocabulary) {
  return document(stage_json(stage, nullptr, vocabulary), vocabulary);
}

}  // namespace trainctl::config
