#pragma once

#include "base/json.hpp"
#include "config/schema/schema.hpp"

#include <string>
#include <utility>
#include <vector>

namespace trainctl::config {

/// Each default of an option that differs between stages, with the stages that have it.
using DefaultsOfStages = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// What is known about one key.
struct Explanation {
  std::string key;            // "optimizer.adam.lr"
  std::string type;           // "number"
  std::string default_value;  // YAML; empty: there is none
  std::string bounds;         // "above 0"
  std::string help;
  std::string example;             // a line of YAML
  std::vector<std::string> below;  // keys or stages one level down
  std::vector<std::string> same;   // other stages with this option
  bool required = false;
  DefaultsOfStages defaults = {};  // empty where all stages have the same
};

/// Finds a dotted key: `trainer.max_epochs`, `optimizer`, `optimizer.lr` (any optimizer's),
/// `optimizer.adam`, `optimizer.adam.lr`, `transform.normalize.mean`, `optimizer.type`, `extends`.
/// Throws Error(config) with the nearest key where there is none.
Explanation explain(const std::string& key, const Schema& schema, const Vocabulary& vocabulary);

/// Everything that `name` may mean: a key as in explain(), the last part of keys (`lr`), a stage
/// (`mixup`) or an option of one (`mixup.alpha`) without its kind, or another program's word for
/// one of these (`cosine`, `epochs`). Empty where there is nothing.
std::vector<Explanation> explain_name(const std::string& name, const Schema& schema,
                                      const Vocabulary& vocabulary);

/// Returns every name that explain_name() knows, once and sorted: dotted keys, their last parts,
/// stages, their options and other programs' words for these. For suggestions.
std::vector<std::string> explained_names(const Schema& schema, const Vocabulary& vocabulary);

/// A paragraph for people, with a line break at its end.
std::string to_text(const Explanation& explanation);
Json to_json(const Explanation& explanation);

/// A key that an override may set, for completion.
struct KnownKey {
  std::string key;                  // "trainer.precision", "optimizer.lr"
  std::vector<std::string> values;  // "32-true", ...; empty: any
  std::string help;
};

/// Every key of the file in its order, sections and stages before what is in them.
std::vector<KnownKey> known_keys(const Schema& schema, const Vocabulary& vocabulary);

}  // namespace trainctl::config
