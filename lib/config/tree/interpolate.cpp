#include "base/strings.hpp"
#include "config/secret.hpp"
#include "config/tree/load.hpp"
#include "config/tree/node.hpp"
#include "config/tree/yaml.hpp"
#include "config/wording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trainctl::config {
namespace {

constexpr std::size_t kMaxChain = 32;
constexpr std::size_t kMaxText = std::size_t{1} << 16;
constexpr std::string_view kSecret = "secret:";

struct Piece {
  std::string text;  // literal text, or the text between the braces
  bool is_reference = false;
};

bool is_name(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::ranges::all_of(text, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
         });
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Returns the end of the reference that starts at `begin` ("${"), after its brace, or npos.
std::size_t end_of_reference(std::string_view text, std::size_t begin) {
  int open = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text.substr(i).starts_with("${")) ++open;
    if (text[i] == '}' && --open == 0) return i + 1;
  }
  return std::string_view::npos;
}

// Returns nothing if a reference is not closed.
std::optional<std::vector<Piece>> split_pieces(std::string_view text) {
  std::vector<Piece> pieces;
  std::string literal;
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i).starts_with("$${")) {
      literal += "${";
      i += 3;
    } else if (text.substr(i).starts_with("${")) {
      const std::size_t end = end_of_reference(text, i);
      if (end == std::string_view::npos) return std::nullopt;
      if (!literal.empty()) pieces.push_back({std::exchange(literal, {})});
      pieces.push_back({std::string(text.substr(i + 2, end - i - 3)), true});
      i = end;
    } else {
      literal += text[i++];
    }
  }
  if (!literal.empty()) pieces.push_back({literal});
  return pieces;
}

Node typed_value(std::string text, const Position& position) {
  Node node;
  if (text != "~" && text != "null") {
    const bool is_empty = text.empty();
    node = Node::scalar(std::move(text), is_empty);
  }
  node.position = position;
  return node;
}

class Resolver {
 public:
  Resolver(const Node& tree, Diagnostics& diagnostics) : tree_(tree), diagnostics_(diagnostics) {}

  Node resolve(const Node& node, std::size_t depth) {
    if (node.broken) return node;
    visited_ += value_cost(node.text);
    if (visited_ > kMaxNodes)
      return fail(
          node,
          fmt::format("the config has more than {} values after its references are resolved",
                      with_thousands(kMaxNodes)),
          "use fewer references");
    if (depth > kMaxDepth)
      return fail(
          node,
          fmt::format(
              "the value is nested more than {} levels deep after its references are resolved",
              kMaxDepth),
          "use fewer levels");
    if (node.type == Node::Type::scalar) {
      return node.text.find("${") == std::string::npos ? node : expand(node, depth);
    }
    Node copy;
    copy.type = node.type;
    copy.position = node.position;
    copy.written_in = node.written_in;
    for (const Node& item : node.items) copy.items.push_back(resolve(item, depth + 1));
    for (const Entry& entry : node.entries) {
      copy.entries.push_back({entry.key, entry.key_position, resolve(entry.value, depth + 1)});
    }
    return copy;
  }

 private:
  // Reports only the first problem of a position, and a runaway expansion only once.
  Node fail(const Node& node, std::string message, std::string hint) {
    if (!exhausted_) diagnostics_.error(node.position, std::move(message), std::move(hint));
    exhausted_ = visited_ > kMaxNodes;
    return Node::broken_at(node.position);
  }

  /// Returns the quoted reference, or '${...}' if its source line is hidden or does not contain it,
  /// since a secret may have been written in the braces.
  static std::string shown(const Node& node, const std::string& what) {
    const Position& at = node.position;
    const bool has_line =
        at.source && at.line >= 1 && static_cast<std::size_t>(at.line) <= at.source->lines.size();
    const std::size_t index = has_line ? static_cast<std::size_t>(at.line - 1) : 0;
    const bool is_shown = has_line && at.source->lines[index].find(what) != std::string::npos &&
                          line_without_secrets(at.source->lines, index) == at.source->lines[index];
    return is_shown ? quote("${" + what + "}") : "'${...}'";
  }

  Node expand(const Node& node, std::size_t depth) {
    const auto pieces = split_pieces(node.text);
    if (!pieces)
      return fail(node, "'${' without a '}'", "close it, or write '$${' for a plain '${'");
    if (node.text.find("$${secret:") != std::string::npos) {
      return fail(node, "'$${secret:...}' would be plain text, not a secret",
                  "write ${secret:NAME}");
    }
    if (pieces->size() == 1 && pieces->front().is_reference)
      return reference(node, pieces->front().text, depth);
    Node result = node;
    result.text.clear();
    for (const Piece& piece : *pieces) {
      if (!piece.is_reference) {
        result.text += piece.text;
        continue;
      }
      const Node value = reference(node, piece.text, depth);
      if (value.broken) return value;
      if (value.type != Node::Type::scalar) {
        return fail(node,
                    fmt::format("{} cannot be part of a text, because its value is {}",
                                shown(node, piece.text), describe_value(value)),
                    "refer to a single value");
      }
      result.text += value.text;
      if (result.text.size() > kMaxText)
        return fail(
            node,
            fmt::format("the text is longer than {} bytes after its references are resolved",
                        kMaxText),
            "use fewer references");
    }
    return result;
  }

  Node reference(const Node& node, const std::string& what, std::size_t depth) {
    if (what.starts_with("env:")) return environment(node, what.substr(4), depth);
    if (what.starts_with(kSecret)) return secret(node, what);
    const std::size_t colon = what.find(':');
    if (colon != std::string::npos) {
      const std::string kind = what.substr(0, colon);
      return fail(node, fmt::format("unknown reference {}", shown(node, what)),
                  kind == "oc.env" || kind == "ENV"
                      ? "write ${env:NAME} or ${env:NAME,default}"
                      : "known: ${key.of.this.file}, ${env:NAME,default}");
    }
    const auto is_path = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
    };
    if (what.empty() || !std::ranges::all_of(what, is_path)) {
      return fail(node, fmt::format("{} must contain a valid key", shown(node, what)),
                  "write ${section.key}, or '$${' for a plain '${'");
    }
    return other_value(node, what, depth);
  }

  Node environment(const Node& node, const std::string& what, std::size_t depth) {
    const std::size_t comma = what.find(',');
    const std::string name = what.substr(0, comma);
    if (!is_name(name)) {
      return fail(node,
                  fmt::format("the name of the environment variable in {} is invalid",
                              shown(node, "env:" + what)),
                  "use letters, digits and '_' only, and no digit first");
    }
    if (const char* value = std::getenv(name.c_str())) {
      if (is_utf8(value)) return typed_value(value, node.position);
      return fail(node, fmt::format("the environment variable '{}' is not valid UTF-8", name),
                  "set it to UTF-8 text");
    }
    if (comma == std::string::npos) {
      return fail(node, fmt::format("the environment variable '{}' is not set", name),
                  fmt::format("set it, or give a default: ${{env:{},default}}", name));
    }
    return resolve(typed_value(what.substr(comma + 1), node.position), depth + 1);
  }

  Node secret(const Node& node, const std::string& what) {
    if (!is_name(what.substr(kSecret.size()))) {
      return fail(node, fmt::format("{} has no valid variable name", shown(node, what)),
                  "write ${secret:NAME} with the name of an environment variable");
    }
    Node kept = node;
    kept.text = "${" + what + "}";
    return kept;
  }

  Node other_value(const Node& node, const std::string& path, std::size_t depth) {
    if (std::ranges::find(chain_, path) != chain_.end()) return cycle(node, path);
    if (chain_.size() >= kMaxChain)
      return fail(
          node, fmt::format("this reference begins a chain of more than {} references", kMaxChain),
          "refer directly to the last key of the chain");
    chain_.push_back(path);
    const std::size_t cycles_before = cycles_met_;
    Node value = lookup(node, path, depth);
    chain_.pop_back();
    value.broken = value.broken || cycles_met_ > cycles_before;
    if (value.broken) {
      value.position = node.position;
      return value;
    }
    if (!value.written_in) value.written_in = value.position.source;
    value.position = node.position;
    return value;
  }

  /// Returns the same as child(), in constant time.
  const Node* child_in_tree(const Node& parent, const std::string& part) {
    if (parent.type != Node::Type::map) return child(parent, part);
    auto& entries = entries_[&parent];
    if (entries.empty()) {
      for (const Entry& entry : parent.entries) entries.emplace(entry.key, &entry.value);
    }
    const auto found = entries.find(part);
    return found == entries.end() ? nullptr : found->second;
  }

  Node lookup(const Node& node, const std::string& path, std::size_t depth) {
    const Node* at = &tree_;
    Node resolved;  // value of another reference on the path
    bool is_resolved = false;
    for (const std::string& part : split_path(path)) {
      if (!is_resolved && at->type == Node::Type::scalar &&
          at->text.find("${") != std::string::npos) {
        resolved = resolve(*at, depth);
        if (resolved.broken) return resolved;
        is_resolved = true;
        at = &resolved;
      }
      const Node* next = is_resolved ? child(*at, part) : child_in_tree(*at, part);
      if (next == nullptr) return unknown(node, path, *at, part);
      at = next;
    }
    return is_resolved ? Node(*at) : resolve(*at, depth);
  }

  /// Suggests a key for the first errors only, because a suggestion compares all keys of the map.
  Node unknown(const Node& node, const std::string& path, const Node& parent,
               const std::string& part) {
    constexpr int kMostSuggestions = 100;
    std::optional<std::string> near;
    if (diagnostics_.error_count() < kMostSuggestions) near = nearest(part, child_names(parent));
    return fail(node, fmt::format("{} refers to a key that does not exist", shown(node, path)),
                near
                    ? fmt::format("did you mean '{}'?", *near)
                    : "references read files and overrides, not defaults: set the key in the file");
  }

  Node cycle(const Node& node, const std::string& path) {
    std::vector<std::string> round(std::ranges::find(chain_, path), chain_.end());
    std::set<std::string> members(round.begin(), round.end());
    round.push_back(path);
    ++cycles_met_;
    Node broken = node;
    broken.broken = true;
    if (!cycles_.insert(members).second) return broken;
    return fail(node, fmt::format("'${{{}}}' refers to itself: {}", path, join(round, " -> ")),
                "set one of these keys to a plain value");
  }

  const Node& tree_;
  Diagnostics& diagnostics_;
  std::map<const Node*, std::unordered_map<std::string_view, const Node*>>
      entries_;  // by the map that has them
  std::vector<std::string> chain_;
  std::set<std::set<std::string>> cycles_;
  std::size_t cycles_met_ = 0;
  std::size_t visited_ = 0;
  bool exhausted_ = false;
};

}  // namespace

Node interpolate(const Node& tree, Diagnostics& diagnostics) {
  return Resolver(tree, diagnostics).resolve(tree, 0);
}

}  // namespace trainctl::config
