#pragma once

#include "base/error.hpp"
#include "config/tree/node.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

// Options and stages as the program knows them: their fields, what follows from the type of a
// field, and the lookup of the fields that the keys of a map refer to.

namespace trainctl::config {

class Reader;
struct Schema;

struct Bound {
  double value = 0;
  bool inclusive = true;
};

enum class ValueType { boolean, integer, number, string, path, choice, list, map, object, stage };

/// The values that a field accepts, without its C++ type: for schema, explain, docs and completion.
struct FieldType {
  ValueType type = ValueType::string;
  bool accepts_auto = false;              // accepts the word auto
  bool nullable = false;                  // accepts ~ or may be absent
  std::vector<std::string> choices;       // for choice
  std::shared_ptr<const FieldType> item;  // for list and map: the type of a value
  std::optional<std::size_t> length;      // for a list of fixed length
  bool accepts_one = false;               // for list: a single value is a list of one
  bool accepts_list = false;              // for integer: a list of indices, and -1 for auto
  bool accepts_map = false;               // for string: a map names several values
  std::shared_ptr<const Schema> object;   // for object
  std::string stage_kind;                 // for stage
};

/// One option. It is described once, and all documents and checks are derived from that.
struct Field {
  std::string key;
  std::string help;     // one sentence
  std::string example;  // YAML; empty: the default is the example
  FieldType type;
  std::optional<Bound> minimum;  // of the number, or of each number in the list
  std::optional<Bound> maximum;
  bool required = false;
  bool not_empty = false;
  bool allows_non_finite = false;

  std::function<void(Reader&, const Node&, const Field&, void* options)> read;
  std::function<Node(const void* options)> write;
};

/// The options of one struct.
struct Schema {
  std::string summary;
  std::vector<Field> fields;
  std::shared_ptr<const Field>
      inline_stage;  // stage whose `type` and options are in the same map as `fields`
  std::function<std::shared_ptr<void>()> make_default;

  /// Returns null if the key does not exist.
  [[nodiscard]] const Field* find(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> keys() const;
};

/// A registered stage, as the front half (without libtorch) knows it.
struct StageType {
  std::string kind;
  std::string name;
  Schema schema;
  std::type_index options_type = typeid(void);
};

template <class Options>
Schema schema_of();  // in config/schema/describe.hpp

/// Returns the tree of an options struct as it is written to YAML, with defaults; null if its
/// inline stage is empty.
Node write_options(const Schema& schema, const void* options);

/// All stages that the front half can name. Vocabularies are values, so tests create their own.
class Vocabulary {
 public:
  template <class Options>
  void add(std::string_view kind, std::string_view name) {
    add(kind, name, schema_of<Options>, typeid(Options));
  }
  void add(StageType type);

  [[nodiscard]] const StageType* find(std::string_view kind, std::string_view name) const;
  [[nodiscard]] std::vector<std::string> kinds() const;
  [[nodiscard]] std::vector<std::string> names(std::string_view kind) const;

 private:
  void add(std::string_view kind, std::string_view name, Schema (*describe)(),
           const std::type_info& options);

  std::map<std::string, std::map<std::string, StageType, std::less<>>, std::less<>> kinds_;
};

/// A selected stage with its parsed options: the value of a field such as `optimizer: {type: adam,
/// lr: 0.001}`. Immutable after parsing; copies share the options. Empty (`type == ""`) if an
/// optional stage was omitted.
struct Stage {
  std::string kind;  // "optimizer"
  std::string type;  // "adam"
  std::shared_ptr<const void> options;
  std::type_index options_type = typeid(void);
  Position position;
  std::shared_ptr<const Schema> schema;  // of the options, to write them

  explicit operator bool() const { return !type.empty(); }

  template <class Options>
  [[nodiscard]] const Options& as() const {
    ASSERT(options_type == std::type_index(typeid(Options)));
    return *static_cast<const Options*>(options.get());
  }

  /// Returns the options if they have this type, else null.
  template <class Options>
  [[nodiscard]] const Options* get_if() const {
    return options_type == typeid(Options) ? &as<Options>() : nullptr;
  }
};

template <class Options>
Stage make_stage(std::string kind, std::string type, Options options) {
  return {std::move(kind),
          std::move(type),
          std::make_shared<const Options>(std::move(options)),
          typeid(Options),
          {},
          std::make_shared<const Schema>(schema_of<Options>())};
}

/// Returns "at least 1 and at most 64" or "above 0"; empty without bounds.
std::string bounds_text(const Field& field);
std::string lower_text(const Bound& bound);
std::string upper_text(const Bound& bound);

/// Returns "integer", "list of 2 numbers", "one of min, max" or "optimizer: adam, sgd", with "or
/// auto" if allowed.
std::string type_text(const FieldType& type, const Vocabulary& vocabulary);

/// Returns the words that a value can be, for completion: choices, stages, true and false, auto.
std::vector<std::string> values_of(const FieldType& type, const Vocabulary& vocabulary);

/// Returns the key that a short form sets: `type` for a stage (`adam`), or the only required key of
/// a section (`file.pth` for weights). Empty if the type has no short form.
std::string short_form_key(const FieldType& type);

/// Converts a short form to the long one: `adam` to {type: adam}, `file.pth` to {path: file.pth},
/// 28 to [28]. Other values stay unchanged.
void expand_short_form(Node& value, const FieldType& type);

/// The fields that a map of the tree can have: those of a struct, a stage, or a stage in a struct.
class FieldsOfMap {
 public:
  explicit FieldsOfMap(const Schema& schema) : own_(&schema) {}
  FieldsOfMap(const StageType& stage, const Schema* extra_fields)
      : own_(&stage.schema), extra_fields_(extra_fields), stage_(&stage) {}

  [[nodiscard]] const Field* find(std::string_view key) const;
  /// Calls `visit` with each field and its default, or null for an empty default.
  void each(const std::function<void(const Field&, const Node& value)>& visit) const;
  [[nodiscard]] const StageType* stage() const { return stage_; }

 private:
  const Schema* own_;
  const Schema* extra_fields_ = nullptr;
  const StageType* stage_ = nullptr;
};

/// Returns the fields of `map`, whose struct is described by `schema`. For a struct with an inline
/// stage they depend on `type`; nothing if that type is unknown.
std::optional<FieldsOfMap> fields_of_struct(const Node& map, const Schema& schema,
                                            const Vocabulary& vocabulary);
/// Returns the fields below a value of this type, if it has any.
std::optional<FieldsOfMap> fields_below(const Node& value, const FieldType& type,
                                        const Vocabulary& vocabulary);

}  // namespace trainctl::config
