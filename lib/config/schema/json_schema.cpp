#include "config/schema/json_schema.hpp"

#include "base/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace trainctl::config {
namespace {

constexpr auto kDialect = "https://json-schema.org/draft/2020-12/schema";

Json scalar_json(const Node& node) {
  const std::string& text = node.text;
  if (node.quoted) return text;
  if (text == "true" || text == "false") return text == "true";
  if (const auto integer = parse_number<std::int64_t>(text)) return *integer;
  const auto number = parse_number<double>(text);
  const bool shaped = text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  return number && shaped ? Json(*number) : Json(text);
}

Json def_ref(const std::string& name) { return {{"$ref", "#/$defs/" + name}}; }

void add_bounds(Json& number, const Field& field) {
  const auto set = [&](const std::optional<Bound>& bound, const char* inclusive,
                       const char* exclusive) {
    if (!bound) return;
    const bool whole =
        std::nearbyint(bound->value) == bound->value && std::abs(bound->value) < 1e15;
    number[bound->inclusive ? inclusive : exclusive] =
        whole ? Json(static_cast<std::int64_t>(bound->value)) : Json(bound->value);
  };
  set(field.minimum, "minimum", "exclusiveMinimum");
  set(field.maximum, "maximum", "exclusiveMaximum");
}

// What a file may omit: nothing, or, for a file that `extends` others, every key and every `type`.
enum class Form { whole, overlay };

class SchemaWriter {
 public:
  SchemaWriter(const Vocabulary& vocabulary, Form form) : vocabulary_(vocabulary), form_(form) {}

  [[nodiscard]] Json of_struct(const Schema& schema) const {
    Json object = empty_object(schema.summary);
    add_fields(object, schema);
    if (!schema.inline_stage) return object;
    // The stage may be missing: dataset.split gives `val` and `test` the data set of `train`.
    Json json = of_kind(schema.inline_stage->type.stage_kind, &schema);
    json["anyOf"].push_back(std::move(object));
    return json;
  }

  // `extra_fields` is a schema whose fields are in the same map as those of the stage, or null.
  [[nodiscard]] Json of_stage(const StageType& stage, const Schema* extra_fields) const {
    Json object = empty_object(stage.schema.summary);
    object["properties"]["type"] = {{"const", stage.name}};
    if (form_ == Form::whole) object["required"] = {"type"};
    add_fields(object, stage.schema);
    if (extra_fields != nullptr) add_fields(object, *extra_fields);
    return object;
  }

  void define_all(Json& definitions) const {
    for (const std::string& kind : vocabulary_.kinds()) {
      definitions[name_of(kind)] = of_kind(kind, nullptr);
      for (const std::string& name : vocabulary_.names(kind)) {
        definitions[name_of(kind + "." + name)] = of_stage(*vocabulary_.find(kind, name), nullptr);
      }
    }
  }

 private:
  [[nodiscard]] std::string name_of(const std::string& stage) const {
    return form_ == Form::whole ? stage : "overlay." + stage;
  }

  static Json empty_object(const std::string& summary) {
    return {{"type", "object"},
            {"description", summary},
            {"additionalProperties", false},
            {"properties", Json::object()}};
  }

  // Accepts a name alone if no option is required, or the long form of each type.
  [[nodiscard]] Json of_kind(const std::string& kind, const Schema* extra_fields) const {
    Json names = Json::array();
    Json forms = Json::array();
    for (const std::string& name : vocabulary_.names(kind)) {
      const StageType& stage = *vocabulary_.find(kind, name);
      if (std::ranges::none_of(stage.schema.fields, &Field::required)) names.push_back(name);
      forms.push_back(extra_fields == nullptr ? def_ref(name_of(kind + "." + name))
                                              : of_stage(stage, extra_fields));
    }
    if (!names.empty()) forms.insert(forms.begin(), Json{{"enum", std::move(names)}});
    return {{"anyOf", std::move(forms)}};
  }

  void add_fields(Json& object, const Schema& schema) const {
    const std::shared_ptr<void> defaults = schema.make_default();
    for (const Field& field : schema.fields) add_field(object, field, field.write(defaults.get()));
  }

  // Every key can be `~`, which means that it is absent.
  void add_field(Json& object, const Field& field, const Node& usual) const {
    Json json = of_type(field.type, field);
    if (json.contains("anyOf")) {
      json["anyOf"].push_back({{"type", "null"}});
    } else {
      json = {{"anyOf", Json::array({std::move(json), Json{{"type", "null"}}})}};
    }
    json["description"] = field.help;
    if (!field.required && !usual.is_null()) json["default"] = to_json(usual);
    if (!field.example.empty()) json["examples"] = Json::array({field.example});
    object["properties"][field.key] = std::move(json);
    if (field.required && form_ == Form::whole) object["required"].push_back(field.key);
  }

  [[nodiscard]] Json of_type(const FieldType& type, const Field& field) const {
    Json plain = of_plain_type(type, field);
    const bool is_text = type.type == ValueType::string || type.type == ValueType::path;
    if (is_text && !type.accepts_auto && !type.accepts_map) return plain;
    Json any = Json::array({std::move(plain)});
    if (type.accepts_one) any.push_back(of_type(*type.item, field));
    if (type.accepts_auto) any.push_back({{"const", "auto"}});
    if (type.accepts_map) any.push_back({{"type", "object"}});
    if (type.type == ValueType::number && !type.choices.empty())  // also texts such as these
      any.push_back({{"type", "string"}, {"examples", type.choices}});
    if (!is_text) any.push_back(def_ref("reference"));
    return {{"anyOf", std::move(any)}};
  }

  [[nodiscard]] Json of_plain_type(const FieldType& type, const Field& field) const {
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
        Json list{{"type", "array"}, {"items", of_type(*type.item, field)}};
        if (type.length) list["minItems"] = list["maxItems"] = *type.length;
        if (field.not_empty) list["minItems"] = 1;
        return list;
      }
      case ValueType::map:
        return {{"type", "object"}, {"additionalProperties", of_type(*type.item, field)}};
      case ValueType::object: return of_struct(*type.object);
      case ValueType::stage: return def_ref(name_of(type.stage_kind));
    }
    return {};
  }

  const Vocabulary& vocabulary_;
  Form form_;
};

Json reference_json() {
  return {{"type", "string"},
          {"pattern", R"(^\$\{.*\}$)"},
          {"description", "A reference such as ${env:NAME,default}."}};
}

Json extends_json() {
  const Json file{{"type", "string"}};
  return {{"description", "Base files, applied in order before this file."},
          {"anyOf",
           Json::array({file, Json{{"type", "array"}, {"items", file}}, Json{{"type", "null"}}})}};
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
  const SchemaWriter whole(vocabulary, Form::whole);
  const SchemaWriter overlay(vocabulary, Form::overlay);
  Json definitions{{"reference", reference_json()}};
  whole.define_all(definitions);
  overlay.define_all(definitions);
  definitions["whole"] = whole.of_struct(schema);
  Json file{{"$schema", kDialect}};
  file.update(overlay.of_struct(schema));
  file["properties"]["extends"] = extends_json();
  file["if"] = {{"required", {"extends"}}};
  file["else"] = def_ref("whole");
  file["$defs"] = std::move(definitions);
  return file;
}

Json json_schema(const StageType& stage, const Vocabulary& vocabulary) {
  const SchemaWriter whole(vocabulary, Form::whole);
  Json definitions{{"reference", reference_json()}};
  whole.define_all(definitions);
  Json schema{{"$schema", kDialect}};
  schema.update(whole.of_stage(stage, nullptr));
  schema["$defs"] = std::move(definitions);
  return schema;
}

}  // namespace trainctl::config
