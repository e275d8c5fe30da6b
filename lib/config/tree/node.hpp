#pragma once

#include "config/tree/position.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {

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
  static Node list();
  static Node list(std::vector<Node> items);
  static Node map();
  static Node map(std::vector<Entry> entries);
};

/// Values below and including this one.
std::size_t count_nodes(const Node& node);

struct Entry {
  std::string key;
  Position key_position;
  Node value;
};

/// "a map", "a list of 3", "'on'" ... for error messages.
std::string describe_value(const Node& node);

}  // namespace trainctl::config
