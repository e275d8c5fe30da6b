#pragma once

#include "config/schema/schema.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

// What is said about a field beyond its own sentence, and the way from a map to the fields of its
// keys.

namespace trainctl::config {

/// "at least 1 and at most 64", "above 0"; empty without bounds.
std::string bounds_text(const Field& field);
std::string lower_text(const Bound& bound);
std::string upper_text(const Bound& bound);

/// "integer", "list of 2 numbers", "one of min, max", "optimizer: adam, sgd", with "or auto" where
/// allowed.
std::string type_text(const FieldType& type, const Vocabulary& vocabulary);

/// The words a value may be, for completion: choices, stages, true and false, auto.
std::vector<std::string> values_of(const FieldType& type, const Vocabulary& vocabulary);

/// The key that a short form stands for: `type` of a stage (`adam`), the one required key of a
/// section (`file.pth` of weights). Empty where the type has no such short form.
std::string short_form_key(const FieldType& type);

/// Turns a short form into the long one: `adam` into {type: adam}, `file.pth` into {path:
/// file.pth}, 28 into [28]. Any other value stays as it is.
void expand_short_form(Node& value, const FieldType& type);

/// The fields that one map of the tree may hold: those of a struct, of a stage, or of a stage and a
/// struct beside it.
class FieldsOfMap {
 public:
  explicit FieldsOfMap(const Schema& schema) : own_(&schema) {}
  FieldsOfMap(const StageType& stage, const Schema* beside)
      : own_(&stage.schema), beside_(beside), stage_(&stage) {}

  [[nodiscard]] const Field* find(std::string_view key) const;
  /// Calls `visit` with each field and its default, null where the default is empty.
  void each(const std::function<void(const Field&, const Node& value)>& visit) const;
  [[nodiscard]] const StageType* stage() const { return stage_; }

 private:
  const Schema* own_;
  const Schema* beside_ = nullptr;
  const StageType* stage_ = nullptr;
};

/// The fields of `map` where the struct is described by `schema`: looks at `type` where it holds a
/// stage inline. Nothing where that type is unknown.
std::optional<FieldsOfMap> fields_of_struct(const Node& map, const Schema& schema,
                                            const Vocabulary& vocabulary);
/// The fields below a value of this type; nothing where it has none.
std::optional<FieldsOfMap> fields_below(const Node& value, const FieldType& type,
                                        const Vocabulary& vocabulary);

}  // namespace trainctl::config
