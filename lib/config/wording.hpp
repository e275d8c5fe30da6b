#pragma once

#include "config/schema/schema.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {

/// 'text', escaped and cut to a length that fits a message.
std::string quote(std::string_view text);

/// "a, b, c", cut after a dozen.
std::string list_some(const std::vector<std::string>& words);

/// What users of PyTorch, Lightning and other runners write for a key of ours.
struct Alias {
  std::string word;
  std::string_view key;   // "trainer.max_epochs"; empty: there is none
  std::string_view note;  // a sentence, where the key alone does not explain
};
std::span<const Alias> aliases();
/// Null where nothing is known about `word`.
const Alias* find_alias(std::string_view word);

/// The hint under an unknown key: an alias, else the nearest of `keys`, else all of them.
std::string unknown_key_hint(const std::string& key, const std::vector<std::string>& keys);

/// Returns the one of `names` that is spelled alike (`AdamW`) or has `name` as a common short form
/// (`cosine`); "" where there is none.
std::string same_name(const std::string& name, const std::vector<std::string>& names);

/// Returns the common short forms that same_name() knows, such as `cosine`.
std::vector<std::string> short_names();

/// The hint under an unknown name out of `names`: knows CamelCase and common short names, else the
/// nearest, else all.
std::string unknown_name_hint(const std::string& name, const std::vector<std::string>& names);

/// The same where the message lists the names already: "did you mean 'gelu'?", or nothing.
std::string meant_name_hint(const std::string& name, const std::vector<std::string>& names);

/// Returns the stage of `kind` to propose where none is named: of those that have most of `keys`
/// the most common one. "name" where there is no stage of that kind.
std::string usual_stage(const Vocabulary& vocabulary, std::string_view kind,
                        const std::vector<std::string>& keys = {});

/// Returns the key that holds stages of `kind`, as "dataset.train.transforms"; empty where no key
/// of the experiment does.
std::string_view place_of_kind(std::string_view kind);

/// Returns "it is a batch transform: write 'dataset.train.batch_transforms: [mixup]'" where a stage
/// of another kind than `except` has that name; else "".
std::string stage_elsewhere_hint(const Vocabulary& vocabulary, std::string_view name,
                                 std::string_view except = {});

}  // namespace trainctl::config
