#pragma once

#include "config/schema/schema.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {

/// Returns the text in quotes, escaped and cut to a length that fits in a message.
std::string quote(std::string_view text);

/// Returns "a, b, c", cut after a dozen words.
std::string list_some(const std::vector<std::string>& words);

/// Another program's name (of PyTorch, Lightning, ...) for one of our keys.
struct Alias {
  std::string word;
  std::string_view key;   // "trainer.max_epochs"; empty: there is no such key
  std::string_view note;  // explanation if the key is not enough
};
std::span<const Alias> aliases();
/// Returns null if `word` is unknown.
const Alias* find_alias(std::string_view word);

/// Returns the hint for an unknown key: an alias, else the nearest of `keys`, else all of them.
std::string unknown_key_hint(const std::string& key, const std::vector<std::string>& keys);

/// Returns the one of `names` with another spelling (`AdamW`), or the one that `name` is a common
/// abbreviation of (`cosine`); "" if none matches.
std::string same_name(const std::string& name, const std::vector<std::string>& names);

/// Returns the common abbreviations that same_name() knows, such as `cosine`.
std::vector<std::string> short_names();

/// Returns the hint for an unknown name among `names`: CamelCase spellings and common abbreviations
/// are recognized; else the nearest name, else all.
std::string unknown_name_hint(const std::string& name, const std::vector<std::string>& names);

/// Returns the same hint for a message that already lists the names: "did you mean 'gelu'?" or "".
std::string meant_name_hint(const std::string& name, const std::vector<std::string>& names);

/// Returns the stage of `kind` to suggest if none is named: the most common of those that have most
/// of `keys`. "name" if there is no stage of that kind.
std::string usual_stage(const Vocabulary& vocabulary, std::string_view kind,
                        const std::vector<std::string>& keys = {});

/// Returns "it is a batch transform: write 'dataset.train.batch_transforms: [mixup]'" if a stage of
/// another kind than `except` has that name; else "".
std::string stage_elsewhere_hint(const Vocabulary& vocabulary, std::string_view name,
                                 std::string_view except = {});

}  // namespace trainctl::config
