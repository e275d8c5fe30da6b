#pragma once

#include "base/json.hpp"
#include "config/schema/schema.hpp"

#include <string>
#include <utility>
#include <vector>

namespace trainctl::config {

/// The defaults of an option that differ between stages, each with its stages.
using DefaultsOfStages = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// The description of one key.
struct Explanation {
  std::string key;            // "optimizer.adam.lr"
  std::string type;           // "number"
  std::string default_value;  // YAML; empty: no default
  std::string bounds;         // "above 0"
  std::string help;
  std::string example;             // a line of YAML
  std::vector<std::string> below;  // keys or stages one level below
  std::vector<std::string> same;   // other stages with this option
  bool required = false;
  DefaultsOfStages defaults = {};  // empty if all stages have the same default
};

/// Returns the explanation of a dotted key: `trainer.max_epochs`, `optimizer`, `optimizer.lr` (of
/// any optimizer), `optimizer.adam`, `optimizer.adam.lr`, `transform.normalize.mean`,
/// `optimizer.type`, `extends`. Throws Error(config) with the nearest key for an unknown key.
Explanation explain(const std::string& key, const Schema& schema, const Vocabulary& vocabulary);

/// Returns all possible meanings of `name`: a key as in explain(), the last part of keys (`lr`), a
/// stage (`mixup`) or an option of a stage (`mixup.alpha`) without its kind, or another program's
/// name for one of these (`cosine`, `epochs`). Empty if it has no meaning.
std::vector<Explanation> explain_name(const std::string& name, const Schema& schema,
                                      const Vocabulary& vocabulary);

/// Returns every name that explain_name() accepts, sorted and without duplicates, for suggestions.
std::vector<std::string> explained_names(const Schema& schema, const Vocabulary& vocabulary);

/// Returns a paragraph of text that ends with a line break.
std::string to_text(const Explanation& explanation);
Json to_json(const Explanation& explanation);

/// A key that can be set by an override, for completion.
struct KnownKey {
  std::string key;                  // "trainer.precision", "optimizer.lr"
  std::vector<std::string> values;  // "32-true", ...; empty: any value
  std::string help;
};

/// Returns all keys in the order of the file; sections and stages come before their contents.
std::vector<KnownKey> known_keys(const Schema& schema, const Vocabulary& vocabulary);

}  // namespace trainctl::config
