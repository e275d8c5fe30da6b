#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

struct Entry;

/// One value of the tree: what the rest of the program sees instead of yaml-cpp. A plain value
/// type; scalars keep their text, so that `1e-3` is shown as it was written and typed only when a
/// field asks.
struct Node {
  enum class Type { null, scalar, list, map };

  Type type = Type::null;
  std::string text;            // scalar
  bool quoted = false;         // scalar: '12' is a string, 12 is a number
  std::vector<Node> items;     // list
  std::vector<Entry> entries;  // map, in the order of the file, keys unique
  Position position;           // of the value
  std::shared_ptr<const Source>
      written_in;       // where the text stands, if an interpolation brought it from elsewhere
  bool broken = false;  // a problem was reported already: readers stay silent

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

/// "a map", "a list of 3", "'on'" ... for error messages.
std::string describe_value(const Node& node);

/// "optimizer.lr" or "metrics.0": the parts between the dots.
std::vector<std::string> split_path(std::string_view path);

/// The index that `part` names in a list; nothing where it is no number or too large.
std::optional<std::size_t> list_index(std::string_view part, std::size_t size);

/// The child of a map or list that `part` names; null if there is none.
const Node* child(const Node& node, std::string_view part);
Node* child(Node& node, std::string_view part);

/// The node at `path` below `root`; null if there is none.
const Node* find_path(const Node& root, std::string_view path);

/// The children's names, for suggestions: keys, or "0", "1" ...
std::vector<std::string> child_names(const Node& node);

/// Whether a scalar can be the short form of a stage: `adam`, not `3` or `true`.
bool is_stage_name(const Node& node);

/// `adam` becomes {type: adam}.
void promote_stage(Node& node);

}  // namespace trainctl::config
