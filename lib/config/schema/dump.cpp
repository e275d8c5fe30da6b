#include "config/schema/dump.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace trainctl::config {
namespace {

using Fields = std::optional<FieldsOfMap>;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

// Returns whether all characters are without meaning to YAML in any position.
bool is_plain(std::string_view text) {
  const auto harmless = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_./+-").find(c) != std::string_view::npos;
  };
  return !text.empty() && std::ranges::all_of(text, harmless) && text != "-" &&
         !text.starts_with("---") && !text.starts_with("...") &&
         !is_one_of(text, {"null", "Null", "NULL"});
}

// Returns whether YAML 1.1 or our reader would not read the text as a string.
bool is_reserved(std::string_view text) {
  return is_one_of(lower_case(text),
                   {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "auto"});
}

// Returns whether every reader reads the text as a string.
bool is_word(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.empty() ? '0' : text[0]);
  const bool begins_well = std::isalpha(first) != 0 || first == '_' || first == '/' ||
                           text.starts_with("./") || text.starts_with("../");
  return begins_well && is_plain(text) && !is_reserved(text);
}

std::string double_quoted(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
    const std::string_view character = text.substr(0, length);
    const auto byte = static_cast<unsigned char>(character[0]);
    if (character == "\"" || character == "\\") {
      result += fmt::format("\\{}", character);
    } else if (character == "\n") {
      result += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      result += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(character[1]));
    } else {
      result += character;
    }
    text.remove_prefix(length);
  }
  return result + "\"";
}

// Escapes a plain `${`, so that it does not become a reference; secrets remain references.
std::string with_escaped_references(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("${") && !text.substr(i).starts_with("${secret:")) result += '$';
    result += text[i];
  }
  return result;
}

std::string scalar_text(const Node& node, References references) {
  if (node.is_null()) return "~";
  // Choices such as `off` are strings, but YAML 1.1 reads them as booleans.
  const bool misread = is_one_of(node.text, {"yes", "no", "on", "off", "y", "n"});
  const bool plain = node.quoted ? is_word(node.text) : is_plain(node.text) && !misread;
  if (plain) return node.text;
  const bool escapes = references == References::escaped;
  return double_quoted(escapes ? with_escaped_references(node.text) : node.text);
}

std::string key_text(const std::string& key) {
  return is_plain(key) && !is_reserved(key) ? key : double_quoted(key);
}

bool holds_map(const Node& node) {
  return node.type == Node::Type::map || std::ranges::any_of(node.items, holds_map);
}

std::string origin(const Position& position) {
  if (!position.source) return "default";
  return position.source->is_override
             ? "override"
             : fmt::format("{}:{}", printable(position.source->name), position.line);
}

class YamlWriter {
 public:
  explicit YamlWriter(const DumpOptions& options) : options_(options) {}

  std::string write(const Node& tree) {
    Fields fields;
    if (options_.schema != nullptr)
      fields = fields_of_struct(tree, *options_.schema, *options_.vocabulary);
    if (!is_block(tree)) {
      line(0, "", tree);
    } else if (tree.type == Node::Type::map) {
      map(tree, 0, fields);
    } else {
      list(tree, 0, nullptr);
    }
    return std::move(text_);
  }

 private:
  static bool is_block(const Node& node) {
    return (node.type == Node::Type::map && !node.entries.empty()) ||
           (node.type == Node::Type::list && holds_map(node));
  }

  void begin_line(std::size_t indent) {
    // After "- " the first key of a map continues the line.
    if (std::exchange(continues_, false)) return;
    text_ += std::string(indent, ' ');
  }

  void line(std::size_t indent, const std::string& head, const Node& value) {
    begin_line(indent);
    text_ += head + flow_text(value);
    if (options_.comments == Comments::origins) text_ += "  # " + origin(value.position);
    text_ += '\n';
  }

  void map(const Node& node, std::size_t indent, const Fields& fields) {
    for (const Entry& entry : node.entries) {
      const Field* field = fields ? fields->find(entry.key) : nullptr;
      if (options_.comments == Comments::help) help(entry, indent, field, fields);
      if (!is_block(entry.value)) {
        line(indent, key_text(entry.key) + ": ", entry.value);
        continue;
      }
      begin_line(indent);
      text_ += key_text(entry.key) + ":\n";
      if (entry.value.type == Node::Type::list) {
        list(entry.value, indent + 2, field == nullptr ? nullptr : field->type.item.get());
      } else {
        map(entry.value, indent + 2,
            field == nullptr ? Fields{}
                             : fields_below(entry.value, field->type, *options_.vocabulary));
      }
    }
  }

  void list(const Node& node, std::size_t indent, const FieldType* item_type) {
    for (const Node& item : node.items) {
      if (!is_block(item)) {
        line(indent, "- ", item);
      } else if (item.type == Node::Type::map) {
        begin_line(indent);
        text_ += "- ";
        continues_ = true;
        map(item, indent + 2,
            item_type == nullptr ? Fields{} : fields_below(item, *item_type, *options_.vocabulary));
      } else {
        begin_line(indent);
        text_ += "-\n";
        list(item, indent + 2, nullptr);
      }
    }
  }

  // Writes the help above the key, but not between a "- " and its first key.
  void help(const Entry& entry, std::size_t indent, const Field* field, const Fields& fields) {
    if (continues_) return;
    std::string sentence = field == nullptr ? "" : field->help;
    if (field != nullptr && !bounds_text(*field).empty())
      sentence += fmt::format(" ({})", bounds_text(*field));
    if (field == nullptr && entry.key == "type" && fields && fields->stage() != nullptr)
      sentence = fields->stage()->schema.summary;
    if (!sentence.empty())
      text_ += fmt::format("{}# {}\n", std::string(indent, ' '), printable(sentence));
  }

  const DumpOptions& options_;
  std::string text_;
  bool continues_ = false;
};

bool same_value(const Node& a, const Node& b) {
  return a.type == b.type && a.text == b.text && std::ranges::equal(a.items, b.items, same_value) &&
         std::ranges::equal(a.entries, b.entries, [](const Entry& one, const Entry& other) {
           return one.key == other.key && same_value(one.value, other.value);
         });
}

Node pruned_map(const Node& map, const Fields& fields, const Vocabulary& vocabulary);

Node pruned(const Node& value, const FieldType& type, const Vocabulary& vocabulary) {
  if (value.type == Node::Type::map) {
    const Fields fields = fields_below(value, type, vocabulary);
    if (!fields) return value;
    Node map = pruned_map(value, fields, vocabulary);
    if (fields->stage() == nullptr || map.entries.size() != 1) return map;
    return map.entries.front().value;
  }
  if (value.type != Node::Type::list || !type.item) return value;
  Node list = value;
  for (Node& item : list.items) item = pruned(item, *type.item, vocabulary);
  return list;
}

Node pruned_map(const Node& map, const Fields& fields, const Vocabulary& vocabulary) {
  Node result = map;
  result.entries.clear();
  if (const Entry* type = map.entry("type"); type != nullptr && fields->stage() != nullptr)
    result.entries.push_back(*type);
  fields->each([&](const Field& field, const Node& usual) {
    const Entry* entry = map.entry(field.key);
    if (entry == nullptr || (!field.required && same_value(entry->value, usual))) return;
    result.entries.push_back(
        {entry->key, entry->key_position, pruned(entry->value, field.type, vocabulary)});
  });
  return result;
}

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
    if (type.accepts_list) {
      any.push_back({{"const", -1}});
      any.push_back({{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}});
    }
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

std::string flow_text(const Node& node, References references) {
  std::vector<std::string> parts;
  if (node.type == Node::Type::map) {
    for (const Entry& entry : node.entries)
      parts.push_back(key_text(entry.key) + ": " + flow_text(entry.value, references));
    return "{" + join(parts, ", ") + "}";
  }
  if (node.type != Node::Type::list) return scalar_text(node, references);
  for (const Node& item : node.items) parts.push_back(flow_text(item, references));
  return "[" + join(parts, ", ") + "]";
}

std::string dump(const Node& tree, const DumpOptions& options) {
  return YamlWriter(options).write(tree);
}

Node with_origins(Node written, const Node& loaded) {
  const bool is_short_stage = written.type == Node::Type::map && loaded.type == Node::Type::scalar;
  if (Node* type = is_short_stage ? child(written, "type") : nullptr)
    type->position = loaded.position;
  if (!loaded.is_null()) written.position = loaded.position;
  for (Entry& entry : written.entries) {
    if (const Node* found = loaded.find(entry.key))
      entry.value = with_origins(std::move(entry.value), *found);
  }
  for (std::size_t i = 0; i < std::min(written.items.size(), loaded.items.size()); ++i) {
    written.items[i] = with_origins(std::move(written.items[i]), loaded.items[i]);
  }
  return written;
}

Node without_defaults(const Node& written, const Schema& schema, const Vocabulary& vocabulary) {
  const Fields fields = fields_of_struct(written, schema, vocabulary);
  return fields ? pruned_map(written, fields, vocabulary) : written;
}

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
