#include "config/tree/node.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "config/wording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainctl::config {

const Entry* Node::entry(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &*found;
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

Node Node::broken_at(const Position& position) {
  Node node;
  node.position = position;
  node.broken = true;
  return node;
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

std::vector<std::string> split_path(std::string_view path) { return split(path, '.'); }

std::optional<std::size_t> list_index(std::string_view part, std::size_t size) {
  const auto index = parse_number<std::size_t>(part);
  return index && *index < size ? index : std::nullopt;
}

const Node* child(const Node& node, std::string_view part) {
  if (node.type == Node::Type::map) return node.find(part);
  if (node.type != Node::Type::list) return nullptr;
  const std::optional<std::size_t> index = list_index(part, node.items.size());
  return index ? &node.items[*index] : nullptr;
}

Node* child(Node& node, std::string_view part) {
  return const_cast<Node*>(child(std::as_const(node), part));
}

const Node* find_path(const Node& root, std::string_view path) {
  const Node* at = &root;
  for (const std::string& part : split_path(path)) {
    at = child(*at, part);
    if (at == nullptr) return nullptr;
  }
  return at;
}

std::vector<std::string> child_names(const Node& node) {
  std::vector<std::string> names;
  for (const Entry& entry : node.entries) names.push_back(entry.key);
  for (std::size_t i = 0; i < node.items.size(); ++i) names.push_back(std::to_string(i));
  return names;
}

bool is_stage_name(const Node& node) {
  if (node.type != Node::Type::scalar || node.text.empty() || node.text == "true" ||
      node.text == "false")
    return false;
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return is_letter(node.text[0]) && std::ranges::all_of(node.text, [&](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') || c == '.';
         });
}

void promote_stage(Node& node) {
  Node map = Node::map();
  map.position = node.position;
  map.entries.push_back({"type", node.position, std::move(node)});
  node = std::move(map);
}

}  // namespace trainctl::config
