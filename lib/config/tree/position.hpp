#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::config {

/// A text that values come from: a file, or one override of the command line.
struct Source {
  std::string name;  // as the user typed it: "mnist.yaml", or "override 'optimizer.lr=1'"
  std::vector<std::string> lines;  // for the excerpt under an error
  bool is_override = false;
  std::filesystem::path folder;  // where its relative paths start; empty: the current directory
};

/// Where a key or value stands. Lines and columns count from 1, columns and `length` (what the
/// caret underlines) in bytes; what is printed counts characters.
struct Position {
  std::shared_ptr<const Source> source;  // null: a default, nothing to point at
  int line = 0;
  int column = 0;
  int length = 1;
};

}  // namespace trainctl::config
