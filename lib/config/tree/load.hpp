#pragma once

#include "config/diagnostics.hpp"
#include "config/tree/node.hpp"
#include "config/tree/override_pass.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// From files and overrides to one tree: extends, then overrides, then interpolation.
//
// `extends: base.yaml` or a list, relative to the file: maps merge, lists and scalars replace, `~`
// deletes. Where a map with another `type` meets a stage, it replaces the stage with all its
// options: those of one type mean nothing to another. The short form `optimizer: sgd` replaces too;
// a map without `type` is merged into the stage, short or long.

namespace trainctl::config {

struct ConfigFile {
  std::filesystem::path path;
  std::string text;
};

struct LoadedTree {
  Node tree;                      // broken where a file could not be read; the diagnostics say why
  std::vector<ConfigFile> files;  // as written: the file itself, then what it extends
};

/// Throws Error(config) where `file` cannot be read; all else goes into `diagnostics`.
LoadedTree load_tree(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                     Diagnostics& diagnostics, const Grammar& grammar = {});

/// The first half of it, the files alone; `finish_tree` is the other, overrides and interpolation.
LoadedTree load_files(const std::filesystem::path& file, Diagnostics& diagnostics);
Node load_text(const std::string& name, std::string_view text, Diagnostics& diagnostics);
Node finish_tree(Node tree, const std::vector<std::string>& overrides, Diagnostics& diagnostics,
                 const Grammar& grammar = {});

/// The same for a text that is in no file; `name` stands in its diagnostics.
Node load_text(const std::string& name, std::string_view text,
               const std::vector<std::string>& overrides, Diagnostics& diagnostics,
               const Grammar& grammar = {});

/// `overlay` laid over `base`, as `extends` does.
Node merge(Node base, Node overlay);

}  // namespace trainctl::config
