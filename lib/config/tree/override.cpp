#include "base/strings.hpp"
#include "config/schema/schema.hpp"
#include "config/tree/load.hpp"
#include "config/tree/node.hpp"
#include "config/tree/yaml.hpp"
#include "config/wording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

namespace trainctl::config {
namespace {

enum class Action { set, add, remove };

struct Part {
  std::string name;
  Position position;
};

struct Override {
  Action action = Action::set;
  std::vector<Part> parts;
  Node value;
};

std::string path_of(const std::vector<Part>& parts, std::size_t count) {
  std::string path;
  for (std::size_t i = 0; i < count; ++i) path += (i == 0 ? "" : ".") + parts[i].name;
  return path;
}

bool is_key(std::string_view part) {
  return !part.empty() && std::ranges::all_of(part, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  });
}

// `---` and `&a` are null in YAML too, but rarely intended.
bool is_written_null(std::string_view text) {
  const std::string_view word = trimmed(text, " ");
  return word == "~" || word == "null" || word == "Null" || word == "NULL";
}

class Parser {
 public:
  Parser(const std::string& text, Diagnostics& diagnostics)
      : text_(text), diagnostics_(diagnostics) {
    Source source = *make_source(fmt::format("override {}", quote(text)), text);
    source.is_override = true;
    source_ = std::make_shared<const Source>(std::move(source));
  }

  std::optional<Override> parse() {
    Override result;
    const std::size_t at = text_.starts_with("++") ? 2 : text_.find_first_of("+~") == 0 ? 1 : 0;
    if (at == 1) result.action = text_[0] == '+' ? Action::add : Action::remove;
    const std::size_t equals = text_.find('=');
    if (!split_key(at, std::min(equals, text_.size()), result.parts)) return std::nullopt;
    if (result.action == Action::remove) {
      if (equals == std::string::npos) return result;
      return fail(equals, "an override with '~' deletes a key and must not have a value",
                  fmt::format("write '{}'", text_.substr(0, equals)));
    }
    if (equals == std::string::npos) {
      return fail(0, "an override must have a value", fmt::format("write '{}=VALUE'", text_));
    }
    if (text_.find_first_not_of(' ', equals + 1) == std::string::npos) {
      const std::string key = text_.substr(at, equals - at);
      return fail(equals, "there is no value after the '='",
                  fmt::format("write \"{0}=''\" for an empty text, '~{0}' to delete the key", key));
    }
    result.value = parse_yaml(source_, std::string_view(text_).substr(equals + 1), diagnostics_,
                              static_cast<int>(equals) + 2);
    if (result.value.is_null() && !result.value.broken &&
        !is_written_null(text_.substr(equals + 1))) {
      return fail(
          equals + 1,
          fmt::format("{} contains no value (YAML reads '#' as a comment, '&' as an anchor)",
                      quote(text_.substr(equals + 1))),
          fmt::format("add a value, or write '~{}' to delete the key",
                      text_.substr(at, equals - at)));
    }
    return result;
  }

 private:
  [[nodiscard]] Position position(std::size_t offset, std::size_t length = 1) const {
    return {source_, 1, static_cast<int>(offset) + 1,
            static_cast<int>(std::max<std::size_t>(length, 1))};
  }

  std::nullopt_t fail(std::size_t offset, std::string message, std::string hint) {
    diagnostics_.error(position(offset), std::move(message), std::move(hint));
    return std::nullopt;
  }

  bool split_key(std::size_t begin, std::size_t end, std::vector<Part>& parts) {
    if (text_.starts_with("--")) {
      fail(0, "an override must be KEY=VALUE, as in optimizer.lr=0.01, got an option",
           "see --help for the options");
      return false;
    }
    for (const std::string& name : split_path(std::string_view(text_).substr(begin, end - begin))) {
      if (!is_key(name)) {
        fail(begin, fmt::format("{} is not a valid key", quote(name)),
             "write 'section.key=value', e.g. 'optimizer.lr=0.01'");
        return false;
      }
      parts.push_back({name, position(begin, name.size())});
      begin += name.size() + 1;
    }
    return true;
  }

  const std::string& text_;
  Diagnostics& diagnostics_;
  std::shared_ptr<const Source> source_;
};

class Applier {
 public:
  Applier(const Override& change, Diagnostics& diagnostics, const Grammar& grammar)
      : change_(change), diagnostics_(diagnostics), grammar_(grammar) {}

  void apply(Node& tree) {
    Node* at = &tree;
    prepare(tree);
    for (std::size_t i = 0; i + 1 < change_.parts.size(); ++i) {
      at = enter(*at, i);
      if (at == nullptr) return;
    }
    const std::size_t last = change_.parts.size() - 1;
    if (!make_container(*at, last)) return;
    if (change_.action == Action::remove) {
      remove(*at, last);
    } else {
      set(*at, last);
    }
  }

 private:
  // Prepares the path to the last part as far as the schema describes it: short forms become long
  // ones, and stages and lists of the defaults are written into the tree. Stores the type of the
  // value that the last part names.
  void prepare(Node& tree) {
    if (grammar_.schema == nullptr) return;
    Node* at = &tree;
    const FieldType* type = nullptr;  // type of `at`; null: the whole file
    for (std::size_t i = 0; i < change_.parts.size(); ++i) {
      const Part& part = change_.parts[i];
      const bool is_last = i + 1 == change_.parts.size();
      if (at->type == Node::Type::list && type != nullptr && type->item) {
        type = type->item.get();
      } else {
        const auto fields = type == nullptr
                                ? fields_of_struct(*at, *grammar_.schema, *grammar_.vocabulary)
                                : fields_below(*at, *type, *grammar_.vocabulary);
        const Field* field = fields ? fields->find(part.name) : nullptr;
        if (field == nullptr) return;
        type = &field->type;
        if (!is_last && change_.action != Action::remove) seed_default(*at, *fields, part);
      }
      if (is_last) {
        last_type_ = type;
        return;
      }
      at = child(*at, part.name);
      if (at == nullptr) return;
      expand_short_form(*at, *type);
    }
  }

  static void seed_default(Node& map, const FieldsOfMap& fields, const Part& part) {
    const Node* found = map.find(part.name);
    if (found != nullptr && !found->is_null()) return;
    Node usual = default_of(fields, part);
    if (usual.type != Node::Type::map && usual.type != Node::Type::list) return;
    std::erase_if(map.entries, [&](const Entry& entry) { return entry.key == part.name; });
    map.entries.push_back({part.name, part.position, std::move(usual)});
  }

  // Returns the default; for a map only its `type`, so that its other options keep their defaults.
  static Node default_of(const FieldsOfMap& fields, const Part& part) {
    Node usual;
    fields.each([&](const Field& field, const Node& value) {
      if (field.key == part.name) usual = value;
    });
    std::erase_if(usual.entries, [](const Entry& entry) { return entry.key != "type"; });
    usual.position = part.position;
    return usual;
  }

  Node* enter(Node& node, std::size_t i) {
    if (!make_container(node, i)) return nullptr;
    const Part& part = change_.parts[i];
    Node* found = child(node, part.name);
    if (found != nullptr) return found;
    if (node.type == Node::Type::list || change_.action == Action::remove) {
      absent(node, i);
      return nullptr;
    }
    Node map = Node::map();
    map.position = part.position;
    node.entries.push_back({part.name, part.position, std::move(map)});
    return &node.entries.back().value;
  }

  // Makes the node that part `i` is looked up in a map or list, if possible.
  bool make_container(Node& node, std::size_t i) {
    const Part& part = change_.parts[i];
    if (node.type == Node::Type::null) {
      node = Node::map();
      node.position = part.position;
    }
    if (is_stage_name(node)) promote_stage(node);
    if (node.type != Node::Type::scalar) return true;
    diagnostics_.error(part.position,
                       fmt::format("'{}' has no keys, because its value is {}",
                                   path_of(change_.parts, i), describe_value(node)),
                       fmt::format("write '{}=VALUE' to change it", path_of(change_.parts, i)));
    return false;
  }

  void set(Node& parent, std::size_t last) {
    const Part& part = change_.parts[last];
    Node* found = child(parent, part.name);
    if (change_.action == Action::add && found != nullptr)
      return diagnostics_.error(
          part.position, fmt::format("'{}' already exists", path_of(change_.parts, last + 1)),
          "write the key without '+' to change its value, or with '++' to add or change it");
    if (parent.type == Node::Type::list) {
      const bool appends =
          change_.action == Action::add && part.name == std::to_string(parent.items.size());
      if (found == nullptr && !appends) return absent(parent, last);
      if (appends) found = &parent.items.emplace_back();
      *found = change_.value;
      return;
    }
    if (part.name == "type") drop_options(parent, found);
    Node value = found == nullptr ? change_.value : completed(*found);
    if (found != nullptr)
      std::erase_if(parent.entries, [&](const Entry& entry) { return entry.key == part.name; });
    parent.entries.push_back({part.name, part.position, std::move(value)});
  }

  // Returns the value to set. A short form keeps the keys below it that earlier overrides set, so
  // that `weights.prefix=model. weights=file.ckpt` has the same effect in any order.
  [[nodiscard]] Node completed(const Node& before) const {
    Node value = change_.value;
    if (last_type_ == nullptr || value.type != Node::Type::scalar ||
        before.type != Node::Type::map || short_form_key(*last_type_).empty())
      return value;
    Node expanded = value;
    expand_short_form(expanded, *last_type_);
    for (const Entry& entry : before.entries) {
      if (is_set_alone(entry.key_position) && expanded.find(entry.key) == nullptr)
        expanded.entries.push_back(entry);
    }
    return expanded.entries.size() > 1 ? expanded : value;
  }

  // Returns whether an override set this key before its '=', and not as part of a map.
  static bool is_set_alone(const Position& key) {
    if (key.source == nullptr || !key.source->is_override || key.source->lines.empty())
      return false;
    const std::size_t equals = key.source->lines.front().find('=');
    return equals == std::string::npos || static_cast<std::size_t>(key.column) <= equals;
  }

  // Another type has other options. Those of earlier overrides are kept: they are for the new type.
  void drop_options(Node& stage, const Node* type) {
    if (type == nullptr || type->text == change_.value.text) return;
    std::erase_if(stage.entries, [](const Entry& entry) {
      return entry.key_position.source == nullptr || !entry.key_position.source->is_override;
    });
  }

  void remove(Node& parent, std::size_t last) {
    const Part& part = change_.parts[last];
    if (child(parent, part.name) == nullptr) return absent(parent, last);
    if (parent.type == Node::Type::list) {
      parent.items.erase(parent.items.begin() +
                         static_cast<std::ptrdiff_t>(*list_index(part.name, parent.items.size())));
    } else {
      std::erase_if(parent.entries, [&](const Entry& entry) { return entry.key == part.name; });
    }
  }

  void absent(const Node& parent, std::size_t i) {
    const Part& part = change_.parts[i];
    const std::string path = path_of(change_.parts, i);
    if (parent.type == Node::Type::list) {
      const std::size_t size = parent.items.size();
      std::string hint = "write ";
      if (size == 1) hint += "index 0, or ";
      if (size > 1) hint += fmt::format("an index from 0 to {}, or ", size - 1);
      return diagnostics_.error(part.position,
                                fmt::format("the list '{}' ({} {}) has no entry {}", path, size,
                                            size == 1 ? "entry" : "entries", quote(part.name)),
                                fmt::format("{}'{}=[...]' for the whole list", hint, path));
    }
    const std::vector<std::string> names = child_names(parent);
    diagnostics_.error(
        part.position,
        fmt::format("cannot delete '{}': it is not set", path_of(change_.parts, i + 1)),
        names.empty() ? "remove the override" : fmt::format("existing keys: {}", list_some(names)));
  }

  const Override& change_;
  Diagnostics& diagnostics_;
  const Grammar& grammar_;
  const FieldType* last_type_ = nullptr;  // type of the value that is set; null: not known
};

}  // namespace

void apply_overrides(Node& tree, const std::vector<std::string>& overrides,
                     Diagnostics& diagnostics, const Grammar& grammar) {
  constexpr std::size_t kMostOverrides = 1000;  // because each one is searched in the tree
  if (overrides.size() > kMostOverrides) {
    tree.broken = true;
    return diagnostics.error(
        {}, fmt::format("a command must have at most 1,000 overrides, got {}", overrides.size()),
        "write the values into the config");
  }
  for (const std::string& text : overrides) {
    const std::optional<Override> change = Parser(text, diagnostics).parse();
    if (change && !change->value.broken && !tree.broken)
      Applier(*change, diagnostics, grammar).apply(tree);
  }
}

}  // namespace trainctl::config
