#include "config/tree/load.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "config/tree/yaml.hpp"
#include "config/wording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <unordered_map>

namespace trainctl::config {
namespace {

constexpr std::size_t kMaxExtends = 16;
constexpr std::size_t kMaxFiles = 64;

std::string_view without_bom(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

bool changes_type(const Node& base, const Node& overlay) {
  const Node* before = base.find("type");
  const Node* after = overlay.find("type");
  return before != nullptr && after != nullptr && before->text != after->text;
}

class Loader {
 public:
  Loader(Diagnostics& diagnostics, const Grammar& grammar)
      : diagnostics_(diagnostics), grammar_(grammar) {}

  Node load_file(const fs::path& path) {
    const std::string text = read_file(path, kMaxFileBytes, ReadFailure::config);
    if (std::ranges::find(files_, path, &ConfigFile::path) == files_.end())
      files_.push_back({path, text});
    chain_.push_back(path);
    Node tree = load(path.string(), without_bom(text), path.parent_path());
    chain_.pop_back();
    return tree;
  }

  Node load(const std::string& name, std::string_view text, const fs::path& folder) {
    const auto source = make_source(name, text, folder);
    Node tree = parse_yaml(source, text, diagnostics_);
    if (tree.broken) return tree;
    if (tree.type != Node::Type::map) {
      const bool is_scalar = tree.type == Node::Type::scalar;
      return broken(tree.position,
                    fmt::format("a config must be a map of keys, got {}", describe_value(tree)),
                    is_scalar ? "write 'key: value', with a space after the colon"
                              : "write lines such as 'key: value'");
    }
    const Node* extends = tree.find("extends");
    if (extends == nullptr) return tree;
    const Node bases = *extends;
    std::erase_if(tree.entries, [](const Entry& entry) { return entry.key == "extends"; });
    Node base = load_bases(bases, folder);
    return base.broken ? base : merge(std::move(base), std::move(tree), grammar_);
  }

  std::vector<ConfigFile> take_files() { return std::move(files_); }

 private:
  Node broken(const Position& position, std::string message, std::string hint) {
    diagnostics_.error(position, std::move(message), std::move(hint));
    return Node::broken_at(position);
  }

  Node load_bases(const Node& bases, const fs::path& folder) {
    if (bases.broken) return bases;
    Node merged = Node::map();
    if (bases.type == Node::Type::null) return merged;
    if (bases.type == Node::Type::map) {
      return broken(bases.position, "'extends' must be a file or a list of files, got a map",
                    "write 'extends: [base.yaml]'");
    }
    bool failed = false;
    const std::vector<Node> names =
        bases.type == Node::Type::list ? bases.items : std::vector<Node>{bases};
    for (const Node& name : names) {
      Node one = load_base(name, folder);
      failed = failed || one.broken;
      if (!failed) merged = merge(std::move(merged), std::move(one), grammar_);
    }
    merged.broken = failed;
    return merged;
  }

  Node load_base(const Node& name, const fs::path& folder) {
    if (name.broken) return name;
    if (name.type != Node::Type::scalar) {
      return broken(
          name.position,
          fmt::format("'extends' must be a file or a list of files, got {}", describe_value(name)),
          "write 'extends: [base.yaml]'");
    }
    if (name.text.find("${") != std::string::npos) {
      return broken(name.position, "'extends' must be a path, got a reference",
                    "write the path of the base file, relative to this file");
    }
    const fs::path path = (folder / name.text).lexically_normal();
    if (!is_file(path)) {
      const std::string near = nearest_file_hint(path);
      return broken(name.position, fmt::format("file {} does not exist", quote(path.string())),
                    near.empty() ? "'extends' is relative to the file that contains it" : near);
    }
    if (is_open(path))
      return broken(name.position, "a file extends itself: " + chain_text(path),
                    "remove one of these 'extends'");
    if (chain_.size() > kMaxExtends) {
      return broken(name.position,
                    fmt::format("the chain of base files has more than {} files", kMaxExtends),
                    "shorten the chain: " + chain_text(path));
    }
    if (++loaded_ > kMaxFiles) {
      return broken(name.position, fmt::format("the config has more than {} base files", kMaxFiles),
                    "merge some of them");
    }
    return load_file(path);
  }

  [[nodiscard]] bool is_open(const fs::path& path) const {
    std::error_code ignored;
    return std::ranges::any_of(
        chain_, [&](const fs::path& open) { return fs::equivalent(open, path, ignored); });
  }

  [[nodiscard]] std::string chain_text(const fs::path& last) const {
    std::string text;
    for (const fs::path& path : chain_) text += printable(path.filename().string()) + " -> ";
    return text + printable(last.filename().string());
  }

  Diagnostics& diagnostics_;
  const Grammar& grammar_;
  std::vector<fs::path> chain_;
  std::vector<ConfigFile> files_;
  std::size_t loaded_ = 0;
};

/// A short form that meets a map without its key becomes part of that map.
void expand_short_forms(Node& base, Node& overlay, const FieldType* type) {
  const std::string key = type == nullptr ? "type" : short_form_key(*type);
  if (key.empty()) return;
  const auto lacks_key = [&](const Node& node) {
    return node.type == Node::Type::map && node.find(key) == nullptr;
  };
  if (type != nullptr) {
    if (lacks_key(overlay)) expand_short_form(base, *type);
    if (lacks_key(base)) expand_short_form(overlay, *type);
  } else if (lacks_key(overlay) && is_stage_name(base)) {
    promote_stage(base);
  }
}

Node merge_maps(Node base, Node overlay, const std::optional<FieldsOfMap>& fields,
                const Vocabulary* vocabulary);

/// `type` is the type of the values; null if not known.
Node merge_values(Node base, Node overlay, const FieldType* type, const Vocabulary* vocabulary) {
  expand_short_forms(base, overlay, type);
  const bool both_maps = base.type == Node::Type::map && overlay.type == Node::Type::map;
  if (!both_maps || changes_type(base, overlay)) return overlay;
  const Node& named = overlay.find("type") != nullptr ? overlay : base;
  std::optional<FieldsOfMap> fields;
  if (type != nullptr && vocabulary != nullptr) fields = fields_below(named, *type, *vocabulary);
  return merge_maps(std::move(base), std::move(overlay), fields, vocabulary);
}

Node merge_maps(Node base, Node overlay, const std::optional<FieldsOfMap>& fields,
                const Vocabulary* vocabulary) {
  base.position = overlay.position;
  std::unordered_map<std::string, std::size_t> indices;
  for (std::size_t i = 0; i < base.entries.size(); ++i) indices.emplace(base.entries[i].key, i);
  for (Entry& entry : overlay.entries) {
    const auto [found, is_new] = indices.emplace(entry.key, base.entries.size());
    if (is_new) {
      base.entries.push_back(std::move(entry));
      continue;
    }
    const Field* field = fields ? fields->find(entry.key) : nullptr;
    Entry& before = base.entries[found->second];
    before.key_position = entry.key_position;
    before.value = merge_values(std::move(before.value), std::move(entry.value),
                                field == nullptr ? nullptr : &field->type, vocabulary);
  }
  return base;
}

}  // namespace

Node merge(Node base, Node overlay, const Grammar& grammar) {
  if (base.type != Node::Type::map || overlay.type != Node::Type::map)
    return merge_values(std::move(base), std::move(overlay), nullptr, grammar.vocabulary);
  std::optional<FieldsOfMap> fields;
  if (grammar.schema != nullptr)
    fields = fields_of_struct(base, *grammar.schema, *grammar.vocabulary);
  return merge_maps(std::move(base), std::move(overlay), fields, grammar.vocabulary);
}

LoadedTree load_files(const fs::path& file, Diagnostics& diagnostics, const Grammar& grammar) {
  std::error_code failure;
  if (!fs::exists(file, failure) && !failure) {
    std::string hint = nearest_file_hint(file);
    if (hint.empty() && file.string().starts_with("configs/"))
      hint =
          "run this in a checkout of trainctl, or copy the installed share/trainctl/configs here";
    THROW(config, "cannot read {}: there is no such file{}{}", printable(file.string()),
          hint.empty() ? "" : "\nhint: ", hint);
  }
  Loader loader(diagnostics, grammar);
  Node tree = loader.load_file(file);
  return {std::move(tree), loader.take_files()};
}

Node load_text(const std::string& name, std::string_view text, Diagnostics& diagnostics) {
  return Loader(diagnostics, {}).load(name, without_bom(text), {});
}

Node finish_tree(Node tree, const std::vector<std::string>& overrides, Diagnostics& diagnostics,
                 const Grammar& grammar) {
  apply_overrides(tree, overrides, diagnostics, grammar);
  return tree.broken ? tree : interpolate(tree, diagnostics);
}

}  // namespace trainctl::config
