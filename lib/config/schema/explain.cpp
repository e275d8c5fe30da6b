#include "config/schema/explain.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "config/schema/dump.hpp"
#include "config/tree/node.hpp"
#include "config/wording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace trainctl::config {
namespace {

// The target of a dotted key so far: a struct, a kind of stage, one stage, or a plain field.
struct Place {
  const Schema* schema = nullptr;
  const Schema* owner = nullptr;  // the struct of `field`, for its default
  const Field* field = nullptr;
  const FieldType* type = nullptr;
  const StageType* stage = nullptr;
  std::string kind = {};
  std::vector<std::string> same = {};
  DefaultsOfStages defaults = {};
};

std::string default_text(const Field& field, const Schema& owner) {
  const std::shared_ptr<void> options = owner.make_default();
  Node usual = field.write(options.get());
  if (usual.find("type") != nullptr) usual = *usual.find("type");
  std::string text = dump(usual);
  text.pop_back();
  return text;
}

class Finder {
 public:
  Finder(const Schema& schema, const Vocabulary& vocabulary)
      : schema_(schema), vocabulary_(vocabulary) {}

  std::optional<Place> find(const std::string& key) const {
    const std::vector<std::string> parts = split_path(key);
    if (auto found = walk({.schema = &schema_}, parts)) return found;
    const std::vector<std::string> kinds = vocabulary_.kinds();
    if (std::ranges::find(kinds, parts[0]) == kinds.end()) return std::nullopt;
    return walk({.kind = parts[0]}, std::span(parts).subspan(1));
  }

 private:
  std::optional<Place> walk(Place start, std::span<const std::string> parts) const {
    std::optional<Place> place = std::move(start);
    for (const std::string& part : parts) {
      if (place) place = step(*place, part);
    }
    return place;
  }

  std::optional<Place> step(const Place& place, const std::string& part) const {
    const bool is_index =
        !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (place.type != nullptr && place.type->item &&
        (is_index || place.type->type == ValueType::map)) {
      return place_of(*place.field, *place.type->item, place.owner);
    }
    const Schema* schema = place.stage != nullptr ? &place.stage->schema : place.schema;
    if (const Field* field = schema == nullptr ? nullptr : schema->find(part))
      return place_of(*field, field->type, schema);
    return place.kind.empty() ? std::nullopt : below_kind(place.kind, part);
  }

  [[nodiscard]] std::optional<Place> below_kind(const std::string& kind,
                                                const std::string& part) const {
    if (const StageType* stage = vocabulary_.find(kind, part)) return Place{.stage = stage};
    std::optional<Place> found;
    std::vector<std::string> holders;
    DefaultsOfStages defaults;
    for (const std::string& name : vocabulary_.names(kind)) {
      const StageType* stage = vocabulary_.find(kind, name);
      const Field* field = stage->schema.find(part);
      if (field == nullptr) continue;
      holders.push_back(name);
      if (!found) found = place_of(*field, field->type, &stage->schema);
      const std::string usual = field->required ? "required" : default_text(*field, stage->schema);
      auto same = std::ranges::find(defaults, usual, &DefaultsOfStages::value_type::first);
      if (same == defaults.end()) same = defaults.insert(same, {usual, {}});
      same->second.push_back(name);
    }
    if (!found) return found;
    found->same = holders;
    if (defaults.size() > 1) found->defaults = std::move(defaults);
    return found;
  }

  static Place place_of(const Field& field, const FieldType& type, const Schema* owner) {
    Place place{.owner = owner, .field = &field, .type = &type, .kind = type.stage_kind};
    if (type.item && type.item->type == ValueType::stage) place.kind = type.item->stage_kind;
    if (type.object) {
      place.schema = type.object.get();
      if (type.object->inline_stage) place.kind = type.object->inline_stage->type.stage_kind;
    }
    return place;
  }

  const Schema& schema_;
  const Vocabulary& vocabulary_;
};

std::string default_text(const Place& place) {
  const bool shown = place.owner != nullptr && &place.field->type == place.type &&
                     !place.field->required && !place.type->object;
  return shown ? default_text(*place.field, *place.owner) : "";
}

// Keys with the same last part come first: `lr` suggests optimizer.adam.lr.
std::string suggestion(const std::string& key, const Schema& schema, const Vocabulary& vocabulary) {
  const std::string last = split_path(key).back();
  std::vector<std::string> ending;
  std::vector<std::string> all;
  for (const KnownKey& known : known_keys(schema, vocabulary)) {
    if (split_path(known.key).back() == last) ending.push_back(known.key);
    all.push_back(known.key);
  }
  if (!ending.empty()) return fmt::format("did you mean {}?", list_some(ending));
  if (const Alias* alias = find_alias(last); alias != nullptr && !alias->key.empty()) {
    return fmt::format("trainctl calls it '{}'", alias->key);
  }
  if (const auto near = nearest(key, all)) return fmt::format("did you mean '{}'?", *near);
  return fmt::format("the sections are: {}", list_some(schema.keys()));
}

void add_stage_keys(const std::string& kind, const Vocabulary& vocabulary,
                    const std::string& prefix, std::vector<KnownKey>& keys) {
  keys.push_back({prefix + "type", vocabulary.names(kind), "Name of the " + kind + "."});
  for (const std::string& name : vocabulary.names(kind)) {
    for (const Field& field : vocabulary.find(kind, name)->schema.fields) {
      const std::string key = prefix + field.key;
      if (std::ranges::find(keys, key, &KnownKey::key) != keys.end()) continue;
      keys.push_back({key, values_of(field.type, vocabulary), field.help});
    }
  }
}

void add_known(const Schema& schema, const Vocabulary& vocabulary, const std::string& prefix,
               std::vector<KnownKey>& keys) {
  if (schema.inline_stage)
    add_stage_keys(schema.inline_stage->type.stage_kind, vocabulary, prefix, keys);
  for (const Field& field : schema.fields) {
    keys.push_back({prefix + field.key, values_of(field.type, vocabulary), field.help});
    const std::string below = prefix + field.key + ".";
    if (field.type.object) add_known(*field.type.object, vocabulary, below, keys);
    if (field.type.type == ValueType::stage)
      add_stage_keys(field.type.stage_kind, vocabulary, below, keys);
  }
}

std::string example_of(const Field& field) {
  if (!field.example.empty()) return field.example;
  return field.type.type == ValueType::integer || field.type.type == ValueType::number ? "1" : "x";
}

// Returns {type: step_lr, step_size: 30}: the required options of the stage.
std::string stage_example(const StageType& stage) {
  std::string text = "{type: " + stage.name;
  for (const Field& field : stage.schema.fields) {
    if (field.required) text += fmt::format(", {}: {}", field.key, example_of(field));
  }
  return text + "}";
}

// Returns the stage in a list of another stage, such as layers in a sequential; empty without such
// a list.
std::string in_stage(const std::string& outer, const std::string& kind, const std::string& stage,
                     const Vocabulary& vocabulary) {
  for (const std::string& name : vocabulary.names(outer)) {
    for (const Field& field : vocabulary.find(outer, name)->schema.fields) {
      if (field.type.item && field.type.item->stage_kind == kind)
        return fmt::format("{{type: {}, {}: [{}]}}", name, field.key, stage);
    }
  }
  return "";
}

// Returns the stage below the key of the file that accepts its kind, as a line to add to an
// experiment; empty if no key does.
std::string in_file(const Schema& schema, const std::string& kind, const std::string& stage,
                    const Vocabulary& vocabulary) {
  for (const Field& field : schema.fields) {
    const FieldType& type = field.type;
    const Schema* below = type.object.get();
    const bool takes_inline =
        below != nullptr && below->inline_stage && below->inline_stage->type.stage_kind == kind;
    if (takes_inline || (type.type == ValueType::stage && type.stage_kind == kind)) {
      return fmt::format("{}: {}", field.key, stage);
    }
    if (type.item && type.item->stage_kind == kind)
      return fmt::format("{}: [{}]", field.key, stage);
    if (type.type == ValueType::stage) {
      const std::string within = in_stage(type.stage_kind, kind, stage, vocabulary);
      if (!within.empty()) return fmt::format("{}: {}", field.key, within);
    }
    const std::string inner = below == nullptr ? "" : in_file(*below, kind, stage, vocabulary);
    if (!inner.empty()) return fmt::format("{}: {{{}}}", field.key, inner);
  }
  return "";
}

// `type` is not a field of a stage's options, and `extends` is not a field of the experiment.
std::optional<Explanation> explain_special(const std::string& key, const Finder& finder,
                                           const Vocabulary& vocabulary) {
  Explanation result;
  result.key = key;
  if (key == "extends") {
    result.type = "path, relative to the file that contains it, or a list of paths";
    result.help =
        "Base files, applied in order before this file: later maps are merged into earlier ones, "
        "later lists and values replace earlier ones, and ~ deletes a key.";
    result.example = "extends: [base.yaml]";
    return result;
  }
  if (!key.ends_with(".type")) return std::nullopt;
  const std::optional<Place> owner = finder.find(key.substr(0, key.size() - 5));
  if (!owner) return std::nullopt;
  const std::string& kind = owner->stage != nullptr ? owner->stage->kind : owner->kind;
  if (kind.empty()) return std::nullopt;
  const std::vector<std::string> names = vocabulary.names(kind);
  result.type = "one of " + join(names, ", ");
  result.help = fmt::format("Name of the {}.", kind);
  result.required = true;
  result.example =
      "type: " + (owner->stage != nullptr ? owner->stage->name : usual_stage(vocabulary, kind));
  return result;
}

std::string example_line(const Place& place, const std::string& usual) {
  const Field& field = *place.field;
  if (!field.example.empty()) return fmt::format("{}: {}", field.key, field.example);
  return usual.empty() || usual == "~" ? "" : fmt::format("{}: {}", field.key, usual);
}

// Collects the dotted keys that a name may refer to, each once.
class NameFinder {
 public:
  NameFinder(const Schema& schema, const Vocabulary& vocabulary)
      : schema_(schema), vocabulary_(vocabulary), finder_(schema, vocabulary) {}

  std::vector<std::string> find(const std::string& name) {
    if (finder_.find(name) || explain_special(name, finder_, vocabulary_)) add(name);
    add_stages(name);
    if (name.find('.') == std::string::npos) {
      add_fields(schema_, "", name);
      add_options(name);
    }
    if (keys_.empty()) add_synonyms(name);
    return std::move(keys_);
  }

 private:
  void add(const std::string& key) {
    if (std::ranges::find(keys_, key) == keys_.end()) keys_.push_back(key);
  }

  // Adds `mixup` and `mixup.alpha`.
  void add_stages(const std::string& name) {
    const std::string stage = split_path(name).front();
    for (const std::string& kind : vocabulary_.kinds()) {
      if (vocabulary_.find(kind, stage) != nullptr && finder_.find(kind + "." + name))
        add(kind + "." + name);
    }
  }

  // Adds `max_epochs` of the sections.
  void add_fields(const Schema& schema, const std::string& prefix, const std::string& name) {
    for (const Field& field : schema.fields) {
      const std::string key = prefix + field.key;
      if (field.key == name) add(key);
      if (field.type.object) add_fields(*field.type.object, key + ".", name);
    }
  }

  // Adds `lr` of the stages.
  void add_options(const std::string& name) {
    for (const std::string& kind : vocabulary_.kinds()) {
      const bool known = std::ranges::any_of(vocabulary_.names(kind), [&](const auto& stage) {
        return vocabulary_.find(kind, stage)->schema.find(name) != nullptr;
      });
      if (known) add(kind + "." + name);
    }
  }

  void add_synonyms(const std::string& name) {
    const Alias* alias = find_alias(name);
    if (alias != nullptr && !alias->key.empty() && finder_.find(std::string(alias->key)))
      return add(std::string(alias->key));
    for (const std::string& kind : vocabulary_.kinds()) {
      const std::string same = same_name(name, vocabulary_.names(kind));
      if (!same.empty()) add(kind + "." + same);
    }
  }

  const Schema& schema_;
  const Vocabulary& vocabulary_;
  Finder finder_;
  std::vector<std::string> keys_;
};

bool has_note(const std::string& name) {
  const Alias* alias = find_alias(name);
  return alias != nullptr && !alias->note.empty();
}

}  // namespace

std::vector<std::string> explained_names(const Schema& schema, const Vocabulary& vocabulary) {
  std::vector<std::string> names;
  for (const KnownKey& known : known_keys(schema, vocabulary)) {
    names.push_back(known.key);
    names.push_back(known.key.substr(known.key.rfind('.') + 1));
  }
  for (const std::string& kind : vocabulary.kinds()) {
    for (const std::string& stage : vocabulary.names(kind)) {
      names.push_back(stage);
      for (const std::string& option : vocabulary.find(kind, stage)->schema.keys())
        names.push_back(option);
    }
  }
  for (const Alias& alias : aliases()) names.emplace_back(alias.word);
  for (std::string& word : short_names()) names.push_back(std::move(word));
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  std::erase_if(names, [&](const std::string& name) {
    return NameFinder(schema, vocabulary).find(name).empty() && !has_note(name);
  });
  return names;
}

std::vector<Explanation> explain_name(const std::string& name, const Schema& schema,
                                      const Vocabulary& vocabulary) {
  std::vector<Explanation> found;
  for (const std::string& key : NameFinder(schema, vocabulary).find(name))
    found.push_back(explain(key, schema, vocabulary));
  if (!found.empty()) return found;
  if (has_note(name)) {
    Explanation& note = found.emplace_back();
    note.key = name;
    note.type = "key of another program";
    note.help = find_alias(name)->note;
  }
  return found;
}

Explanation explain(const std::string& key, const Schema& schema, const Vocabulary& vocabulary) {
  const Finder finder(schema, vocabulary);
  const std::optional<Place> place = finder.find(key);
  if (!place) {
    if (const auto special = explain_special(key, finder, vocabulary)) return *special;
  }
  ENSURE(config, place.has_value(), "unknown key {}: {}", quote(key),
         suggestion(key, schema, vocabulary));
  Explanation result;
  result.key = key;
  if (place->stage != nullptr) {
    result.type = place->stage->kind;
    result.help = place->stage->schema.summary;
    result.below = place->stage->schema.keys();
    result.example = in_file(schema, place->stage->kind, stage_example(*place->stage), vocabulary);
    return result;
  }
  if (!place->kind.empty()) result.below = vocabulary.names(place->kind);
  if (place->schema != nullptr) {
    for (const std::string& name : place->schema->keys()) result.below.push_back(name);
    result.help = place->schema->summary;
  }
  if (place->field == nullptr) {
    result.type = "stage";
    result.help = "A kind of stage.";
    return result;
  }
  result.type = type_text(*place->type, vocabulary);
  result.default_value = default_text(*place);
  result.bounds = bounds_text(*place->field);
  result.help = place->field->help;
  result.required = place->field->required;
  result.same = place->same;
  result.defaults = place->defaults;
  if (!result.defaults.empty()) {
    result.default_value.clear();
    result.required = false;
  }
  result.example = example_line(*place, result.default_value);
  return result;
}

std::string to_text(const Explanation& explanation) {
  std::string text = fmt::format("{}: {}\n", printable(explanation.key), explanation.help);
  const auto row = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<9}{}\n", name, value);
  };
  row("type", explanation.type);
  row("default", explanation.required ? "none; the key is required" : explanation.default_value);
  const char* label = "default";
  for (const auto& [usual, stages] : explanation.defaults) {
    row(label, fmt::format("{} in {}", usual, join(stages, ", ")));
    label = "";
  }
  row("bounds", explanation.bounds);
  if (explanation.defaults.empty()) row("used by", join(explanation.same, ", "));
  row("contains", join(explanation.below, ", "));
  row("example", explanation.example);
  return text;
}

Json to_json(const Explanation& explanation) {
  Json defaults = Json::object();
  for (const auto& [usual, stages] : explanation.defaults) {
    for (const std::string& stage : stages) defaults[stage] = usual;
  }
  return {{"schema", "trainctl.explain/2"},
          {"key", explanation.key},
          {"type", explanation.type},
          {"default", explanation.default_value},
          {"required", explanation.required},
          {"bounds", explanation.bounds},
          {"help", explanation.help},
          {"example", explanation.example},
          {"below", explanation.below},
          {"of", explanation.same},
          {"defaults", defaults}};
}

std::vector<KnownKey> known_keys(const Schema& schema, const Vocabulary& vocabulary) {
  std::vector<KnownKey> keys;
  add_known(schema, vocabulary, "", keys);
  return keys;
}

}  // namespace trainctl::config
