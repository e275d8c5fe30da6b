#pragma once

#include "config/sample.hpp"
#include "config/tree/load.hpp"
#include "config/tree/node.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sample {

/// Returns the tree of a valid text.
inline trainctl::config::Node tree(std::string_view text,
                                   const std::vector<std::string>& overrides = {}) {
  trainctl::config::Diagnostics diagnostics;
  auto tree = trainctl::config::finish_tree(
      trainctl::config::load_text("test.yaml", text, diagnostics), overrides, diagnostics);
  diagnostics.throw_if_errors();
  return tree;
}

/// Returns the typed experiment of a valid text.
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

/// Returns the diagnostics of a text; empty if it is valid.
inline std::string problems(std::string_view text, const std::vector<std::string>& overrides = {}) {
  trainctl::config::Diagnostics diagnostics;
  read(trainctl::config::finish_tree(trainctl::config::load_text("test.yaml", text, diagnostics),
                                     overrides, diagnostics),
       diagnostics);
  return diagnostics.render();
}

/// Returns the tree of a file with overrides, and the files that it extends.
inline trainctl::config::LoadedTree load_tree(const std::filesystem::path& file,
                                              const std::vector<std::string>& overrides,
                                              trainctl::config::Diagnostics& diagnostics) {
  trainctl::config::LoadedTree loaded = trainctl::config::load_files(file, diagnostics);
  loaded.tree = trainctl::config::finish_tree(std::move(loaded.tree), overrides, diagnostics);
  return loaded;
}

/// Returns the scalar at `path`, or "(none)".
inline std::string text_at(const trainctl::config::Node& tree, std::string_view path) {
  const trainctl::config::Node* node = trainctl::config::find_path(tree, path);
  return node == nullptr ? "(none)" : node->text;
}

}  // namespace sample
