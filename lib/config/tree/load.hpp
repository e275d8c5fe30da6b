#pragma once

#include "config/diagnostics.hpp"
#include "config/schema/schema.hpp"
#include "config/tree/node.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {

/// What an override below a default finds there. Null: nothing.
struct Grammar {
  const Schema* schema = nullptr;
  const Vocabulary* vocabulary = nullptr;
};

/// Changes the tree as the command line says, in order: `a.b=c` sets, `+a.b=c` adds what must not
/// be there, `++a.b=c` adds or sets, `~a.b` deletes what must be there, `a.0.b` goes into a list.
/// The value is YAML. A stage in its short form becomes a map where an override goes below it; a
/// new `type` drops the options that the file gave the old one. Where the way leads through a stage
/// or a list that only the defaults name, it is written into the tree first. Whether a key exists
/// is the schema's to say: the reader reports it at the override.
void apply_overrides(Node& tree, const std::vector<std::string>& overrides,
                     Diagnostics& diagnostics, const Grammar& grammar = {});

/// Replaces `${a.b}` (another value of the tree), `${env:NAME}` and `${env:NAME,default}`. A scalar
/// that is nothing but one reference becomes what it refers to, with its type; within a text the
/// value's text is put in. `$${` stands for a plain `${`. `${secret:NAME}` stays a reference, which
/// the reader refuses where no field takes one. What cannot be resolved is reported and left
/// broken. Values keep the place of the `${`.
Node interpolate(const Node& tree, Diagnostics& diagnostics);

// From files and overrides to one tree: extends, then overrides, then interpolation.
//
// `extends: base.yaml` or a list, relative to the file: maps merge, lists and scalars replace, `~`
// deletes. Where a map with another `type` meets a stage, it replaces the stage with all its
// options: those of one type mean nothing to another. The short form `optimizer: sgd` replaces too;
// a map without `type` is merged into the stage, short or long.

struct ConfigFile {
  std::filesystem::path path;
  std::string text;
};

struct LoadedTree {
  Node tree;                      // broken where a file could not be read; the diagnostics say why
  std::vector<ConfigFile> files;  // as written: the file itself, then what it extends
};

/// Reads a file and what it extends. Throws Error(config) where `file` cannot be read; all else
/// goes into `diagnostics`.
LoadedTree load_files(const std::filesystem::path& file, Diagnostics& diagnostics,
                      const Grammar& grammar = {});
/// Reads a text that is in no file; `name` stands in its diagnostics.
Node load_text(const std::string& name, std::string_view text, Diagnostics& diagnostics);
/// Applies overrides to what load_files() or load_text() gave, then interpolates.
Node finish_tree(Node tree, const std::vector<std::string>& overrides, Diagnostics& diagnostics,
                 const Grammar& grammar = {});

/// `overlay` laid over `base`, as `extends` does. Short forms that the grammar describes count as
/// long ones: a short form and a map without the key that it stands for (`path` of weights, `type`
/// of a stage) are merged, whichever comes first.
Node merge(Node base, Node overlay, const Grammar& grammar = {});

}  // namespace trainctl::config
