#include "spec/checker.hpp"

#include "config/tree_path.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace trainctl::spec {
namespace {

bool same_place(const config::Position& a, const config::Position& b) {
  return a.source == b.source && a.line == b.line && a.column == b.column;
}

bool touches(const config::Node& node, const std::vector<config::Diagnostic>& problems) {
  const auto is_bad = [&](const config::Position& place) {
    return std::ranges::any_of(problems, [&](const config::Diagnostic& one) {
      return one.severity == config::Severity::error && same_place(one.position, place);
    });
  };
  if (node.broken || is_bad(node.position)) return true;
  if (std::ranges::any_of(node.items, [&](const config::Node& item) { return touches(item, problems); })) return true;
  return std::ranges::any_of(node.entries, [&](const config::Entry& entry) {
    return is_bad(entry.key_position) || touches(entry.value, problems);
  });
}

}  // namespace

bool Checker::sound(const std::string& path) const {
  const config::Node* node = config::find_path(tree_, path);
  return node == nullptr || !touches(*node, diagnostics_.sorted());
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
