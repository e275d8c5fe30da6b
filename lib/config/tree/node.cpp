#include "config/tree/node.hpp"

#include "config/wording.hpp"

#include <fmt/format.h>

#include <utility>

namespace trainctl::config {

const Entry* Node::entry(std::string_view key) const {
  for (const Entry& candidate : entries) {
    if (candidate.key == key) return &candidate;
  }
  return nullptr;
}

const Node* Node::find(std::string_view key) const {
  const Entry* found = entry(key);
  return found == nullptr ? nullptr : &found->value;
}

Node Node::scalar(std::string text, bool quoted) {
  Node node;
  node.type = Type::scalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

Node Node::list() { return list(std::vector<Node>{}); }

Node Node::list(std::vector<Node> items) {
  Node node;
  node.type = Type::list;
  node.items = std::move(items);
  return node;
}

Node Node::map() { return map(std::vector<Entry>{}); }

Node Node::map(std::vector<Entry> entries) {
  Node node;
  node.type = Type::map;
  node.entries = std::move(entries);
  return node;
}

std::size_t count_nodes(const Node& node) {
  std::size_t count = 1;
  for (const Node& item : node.items) count += count_nodes(item);
  for (const Entry& entry : node.entries) count += count_nodes(entry.value);
  return count;
}

std::string describe_value(const Node& node) {
  switch (node.type) {
    case Node::Type::null: return "nothing";
    case Node::Type::scalar: return (node.quoted ? "the text " : "") + quote(node.text);
    case Node::Type::list:
      return node.items.empty() ? "an empty list" : fmt::format("a list of {}", node.items.size());
    case Node::Type::map: return node.entries.empty() ? "an empty map" : "a map";
  }
  return "a value";
}

}  // namespace trainctl::config
