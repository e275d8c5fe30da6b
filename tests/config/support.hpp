#pragma once

#include "config/sample.hpp"
#include "config/tree/load.hpp"
#include "config/tree/node.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Shorthands of the config tests.

namespace sample {

/// The tree of a text that must be sound.
inline trainctl::config::Node tree(std::string_view text,
                                   const std::vector<std::string>& overrides = {}) {
  trainctl::config::Diagnostics diagnostics;
  auto tree = trainctl::config::finish_tree(
      trainctl::config::load_text("test.yaml", text, diagnostics), overrides, diagnostics);
  diagnostics.throw_if_errors();
  return tree;
}

/// The typed experiment of a text that must be sound.
inline Experiment experiment(std::string_view text,
                             const std::vector<std::string>& overrides = {}) {
  trainctl::config::Diagnostics diagnostics;
  Experiment read_back =
      read(trainctl::config::finish_tree(
               trainctl::config::load_text("test.yaml", text, diagnostics), overrides, diagnostics),
           diagnostics);
  diagnostics.throw_if_errors();
  return read_back;
}

/// What is said about a text; empty if it is sound.
inline std::string problems(std::string_view text, const std::vector<std::string>& overrides = {}) {
  trainctl::config::Diagnostics diagnostics;
  read(trainctl::config::finish_tree(trainctl::config::load_text("test.yaml", text, diagnostics),
                                     overrides, diagnostics),
       diagnostics);
  return diagnostics.render();
}

/// The tree of a file, with overrides, and the files that it extends.
inline trainctl::config::LoadedTree load_tree(const std::filesystem::path& file,
                                              const std::vector<std::string>& overrides,
                                              trainctl::config::Diagnostics& diagnostics) {
  trainctl::config::LoadedTree loaded = trainctl::config::load_files(file, diagnostics);
  loaded.tree = trainctl::config::finish_tree(std::move(loaded.tree), overrides, diagnostics);
  return loaded;
}

/// The scalar at `path`; "(none)" if there is none.
inline std::string text_at(const trainctl::config::Node& tree, std::string_view path) {
  const trainctl::config::Node* node = trainctl::config::find_path(tree, path);
  return node == nullptr ? "(none)" : node->text;
}

}  // namespace sample
