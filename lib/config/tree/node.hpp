#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {

/// The origin of values: a file or one override of the command line.
struct Source {
  std::string name;                // as typed: "mnist.yaml", or "override 'optimizer.lr=1'"
  std::vector<std::string> lines;  // for the excerpt in an error
  bool is_override = false;
  std::filesystem::path folder;  // base of its relative paths; empty: the working directory
};

/// The position of a key or value. Lines and columns count from 1; columns and `length` (the
/// underlined part) are in bytes, but printed columns are in characters.
struct Position {
  std::shared_ptr<const Source> source;  // null: a default value without a source
  int line = 0;
  int column = 0;
  int length = 1;
};

struct Entry;

/// One value of the config tree, which hides yaml-cpp from the rest of the program. A plain value
/// type. Scalars keep their text, so that `1e-3` is shown as written, and get a type from a field.
struct Node {
  enum class Type { null, scalar, list, map };

  Type type = Type::null;
  std::string text;            // for scalar
  bool quoted = false;         // for scalar: '12' is a string, 12 is a number
  std::vector<Node> items;     // for list
  std::vector<Entry> entries;  // for map, in file order, with unique keys
  Position position;           // of the value
  std::shared_ptr<const Source>
      written_in;       // source of the text if an interpolation inserted it from another source
  bool broken = false;  // a problem was already reported, so readers report nothing

  [[nodiscard]] const Node* find(std::string_view key) const;  // null if absent or not a map
  [[nodiscard]] const Entry* entry(std::string_view key) const;
  [[nodiscard]] bool is_null() const { return type == Type::null; }

  static Node scalar(std::string text, bool quoted = false);
  static Node list(std::vector<Node> items = {});
  static Node map();
  static Node map(std::vector<Entry> entries);
  static Node broken_at(const Position& position);
};

struct Entry {
  std::string key;
  Position key_position;
  Node value;
};

/// Returns "a map", "a list of 3", "'on'", ... for error messages.
std::string describe_value(const Node& node);

/// Splits "optimizer.lr" or "metrics.0" at the dots.
std::vector<std::string> split_path(std::string_view path);

/// Returns `part` as a list index; nothing if it is not a number or too large.
std::optional<std::size_t> list_index(std::string_view part, std::size_t size);

/// Returns the child of a map or list called `part`, or null.
const Node* child(const Node& node, std::string_view part);
Node* child(Node& node, std::string_view part);

/// Returns the node at `path` below `root`, or null.
const Node* find_path(const Node& root, std::string_view path);

/// Returns the names of the children, for suggestions: keys, or "0", "1", ...
std::vector<std::string> child_names(const Node& node);

/// Returns whether a scalar can be the short form of a stage: `adam`, but not `3` or `true`.
bool is_stage_name(const Node& node);

/// Converts `adam` to {type: adam}.
void promote_stage(Node& node);

}  // namespace trainctl::config
