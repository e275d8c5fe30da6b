#pragma once

#include "config/diagnostics.hpp"
#include "config/schema/schema.hpp"
#include "config/tree/node.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {

/// The schema, from which overrides take the defaults of missing keys. Null: not available.
struct Grammar {
  const Schema* schema = nullptr;
  const Vocabulary* vocabulary = nullptr;
};

/// Applies the overrides of the command line in order: `a.b=c` sets, `+a.b=c` adds a key that must
/// not exist, `++a.b=c` adds or sets, `~a.b` deletes a key that must exist, `a.0.b` addresses a
/// list. The value is YAML. A stage in short form becomes a map if an override sets one of its
/// options; a new `type` drops the options that the file set for the old one. A stage or list that
/// exists only in the defaults is first written into the tree. Unknown keys are reported later, by
/// the reader, at the position of the override. More than 1,000 overrides are an error.
void apply_overrides(Node& tree, const std::vector<std::string>& overrides,
                     Diagnostics& diagnostics, const Grammar& grammar = {});

/// Replaces `${a.b}` (another value of the tree), `${env:NAME}` and `${env:NAME,default}`. A scalar
/// that consists of one reference gets the value and type of its target; within a text the text of
/// the value is inserted. `$${` is a literal `${`. `${secret:NAME}` stays a reference, which the
/// reader rejects for fields that accept no secret. Unresolved references are reported and become
/// broken nodes. Values keep the position of the `${`.
Node interpolate(const Node& tree, Diagnostics& diagnostics);

// How files and overrides become one tree: extends, then overrides, then interpolation.
//
// `extends: base.yaml` (or a list) is relative to the file: maps merge, lists and scalars replace,
// `~` deletes. A map with another `type` replaces a stage with all its options, since they do not
// apply to another type. The short form `optimizer: sgd` replaces too; a map without `type` is
// merged into a stage in short or long form.

struct ConfigFile {
  std::filesystem::path path;
  std::string text;
};

struct LoadedTree {
  Node tree;                      // broken if a file could not be read; see the diagnostics
  std::vector<ConfigFile> files;  // as written: the file itself, then the files it extends
};

/// Reads a file and the files it extends. Throws Error(config) if `file` cannot be read; other
/// problems are added to `diagnostics`.
LoadedTree load_files(const std::filesystem::path& file, Diagnostics& diagnostics,
                      const Grammar& grammar = {});
/// Reads a text that is not in a file; `name` is its name in diagnostics.
Node load_text(const std::string& name, std::string_view text, Diagnostics& diagnostics);
/// Applies overrides to the result of load_files() or load_text(), then interpolates.
Node finish_tree(Node tree, const std::vector<std::string>& overrides, Diagnostics& diagnostics,
                 const Grammar& grammar = {});

/// Merges `overlay` into `base` as `extends` does. Short forms that the grammar describes are
/// equivalent to long ones: a short form and a map without the key it sets (`path` for weights,
/// `type` for a stage) are merged in either order.
Node merge(Node base, Node overlay, const Grammar& grammar = {});

}  // namespace trainctl::config
