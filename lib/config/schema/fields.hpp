#pragma once

#include "config/schema/schema.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

// Descriptions of a field that are derived from its type, and the lookup of the fields that the
// keys of a map refer to.

namespace trainctl::config {

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
