#include "spec/checks/checks.hpp"

namespace trainctl::spec {
namespace {

bool touches(const config::Node& node, const config::Diagnostics& problems) {
  if (node.broken || problems.has_error_at(node.position)) return true;
  if (std::ranges::any_of(node.items,
                          [&](const config::Node& item) { return touches(item, problems); }))
    return true;
  return std::ranges::any_of(node.entries, [&](const config::Entry& entry) {
    return problems.has_error_at(entry.key_position) || touches(entry.value, problems);
  });
}

}  // namespace

bool Checker::is_valid(const std::string& path) const {
  if (tree_.broken) return false;
  const config::Node* node = config::find_path(tree_, path);
  return node == nullptr || !touches(*node, diagnostics_);
}

bool Checker::is_valid(std::initializer_list<const char*> paths) const {
  return std::ranges::all_of(paths, [&](const char* path) { return is_valid(std::string(path)); });
}

bool Checker::is_valid_except(const std::string& path, std::string_view key) const {
  const config::Node* node = config::find_path(tree_, path);
  if (tree_.broken || node == nullptr) return !tree_.broken;
  config::Node rest = *node;
  std::erase_if(rest.entries, [&](const config::Entry& entry) { return entry.key == key; });
  return !touches(rest, diagnostics_);
}

config::Position Checker::at(const std::string& path) const {
  const config::Node* deepest = &tree_;
  for (const std::string& part : config::split_path(path)) {
    const config::Node* next = config::child(*deepest, part);
    if (next == nullptr) break;
    deepest = next;
  }
  return deepest->position;
}

void Checker::error(const std::string& path, std::string message, std::string hint) {
  diagnostics_.error(at(path), std::move(message), std::move(hint));
}

void Checker::warning(const std::string& path, std::string message, std::string hint) {
  diagnostics_.warning(at(path), std::move(message), std::move(hint));
}

}  // namespace trainctl::spec
