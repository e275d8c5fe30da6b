#include "base/strings.hpp"
#include "config/tree/yaml.hpp"
#include "report/record/run_files.hpp"

namespace trainctl::report {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

bool holds_scalars(const config::Node& list) {
  for (const config::Node& item : list.items) {
    const bool nested = item.type == config::Node::Type::map ||
                        (item.type == config::Node::Type::list && !holds_scalars(item));
    if (nested) return false;
  }
  return true;
}

std::string text_of(const config::Node& node) {
  switch (node.type) {
    case config::Node::Type::null: return "~";
    case config::Node::Type::scalar: return node.text;
    case config::Node::Type::map: return "{}";
    case config::Node::Type::list: break;
  }
  std::string text;
  for (const config::Node& item : node.items) text += (text.empty() ? "" : ", ") + text_of(item);
  return "[" + text + "]";
}

/// parse_yaml() bounds the depth.
void flatten(const config::Node& node, const std::string& path, Values& values) {
  const std::string front = path.empty() ? "" : path + ".";
  if (node.type == config::Node::Type::map && !node.entries.empty()) {
    for (const config::Entry& entry : node.entries) flatten(entry.value, front + entry.key, values);
  } else if (node.type == config::Node::Type::list && !holds_scalars(node)) {
    for (std::size_t i = 0; i < node.items.size(); ++i)
      flatten(node.items[i], front + std::to_string(i), values);
  } else if (!path.empty()) {
    values.emplace_back(path, text_of(node));
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> flat_values(const std::string& yaml) {
  Values values;
  if (yaml.empty()) return values;
  config::Diagnostics ignored;
  const auto source = config::make_source("config.resolved.yaml", yaml);
  const config::Node tree = config::parse_yaml(source, yaml, ignored);
  if (tree.type == config::Node::Type::map) flatten(tree, "", values);
  return values;
}

}  // namespace trainctl::report
