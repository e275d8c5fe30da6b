#include "config/wording.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <tuple>

namespace trainctl::config {
namespace {

constexpr std::size_t kLongestQuote = 60;
constexpr std::size_t kMostListed = 12;

/// Common abbreviations of a name, separated by spaces.
struct Synonyms {
  const char* words;
  std::string_view name;
};

constexpr Synonyms kNames[] = {
    {"ce nll crossentropyloss", "cross_entropy"},
    {"mseloss l2", "mse"},
    {"kldiv kldivloss", "kl_div_with_logits"},
    {"step", "step_lr"},
    {"multistep", "multi_step_lr"},
    {"exponential", "exponential_lr"},
    {"cosine", "cosine_annealing_lr"},
    {"plateau", "reduce_lr_on_plateau"},
    {"none", "constant"},
    {"cuda", "gpu"},
    {"16 fp16 float16 half", "16-mixed"},
    {"bf16 bfloat16", "bf16-mixed"},
    {"32 fp32 float32 full", "32-true"},
    {"minimum", "min"},
    {"maximum", "max"},
    {"hflip", "random_horizontal_flip"},
    {"acc", "accuracy"},
    {"top5", "top_k_accuracy"},
    {"ffn", "mlp"},
    {"logistic_regression", "linear"},
    {"valid val", "test"},
};

// "torch.optim.AdamW" and "adam_w" become the same word: the last part, in lower case, with only
// letters and digits.
std::string plain_word(std::string_view name) {
  if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos)
    name.remove_prefix(dot + 1);
  std::string word = lower_case(name);
  std::erase_if(word, [](unsigned char c) { return std::isalnum(c) == 0; });
  return word;
}

bool holds(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::optional<std::string> meant_name(const std::string& name,
                                      const std::vector<std::string>& names) {
  if (std::string same = same_name(name, names); !same.empty()) return same;
  return nearest(lower_case(name), names);
}

std::string did_you_mean(const std::string& found, std::vector<std::string> all) {
  std::erase(all, found);
  std::string hint = fmt::format("did you mean '{}'?", found);
  if (!all.empty()) hint += fmt::format(" (also: {})", list_some(all));
  return hint;
}

std::string alias_hint(const Alias& alias, const std::vector<std::string>& keys) {
  if (!alias.note.empty()) return std::string(alias.note);
  const std::string_view last = alias.key.substr(alias.key.rfind('.') + 1);
  if (holds(keys, last)) return did_you_mean(std::string(last), keys);
  if (alias.word == "name") return "write 'name' at the top level of the file";
  if (alias.key == "type") return "";
  if (alias.key.find('.') == std::string_view::npos)
    return fmt::format("write '{}' at the top level of the file", alias.key);
  return fmt::format("trainctl calls it '{}'", alias.key);
}

// Returns the alias that `key` is a misspelling of: 'learning_rte'.
const Alias* near_alias(const std::string& key) {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all;
    for (const Alias& alias : aliases()) {
      if (alias.word.size() > 5) all.emplace_back(alias.word);
    }
    return all;
  }();
  const std::optional<std::string> word = nearest(key, words);
  return word && edit_distance(key, *word) <= 2 ? find_alias(*word) : nullptr;
}

struct Kind {
  std::string_view kind;
  std::string_view place;
  bool is_list;
  std::array<std::string_view, 3> usual;  // most common first
};

constexpr std::array<Kind, 12> kKinds{{
    {"dataset", "dataset.train", false, {"image_folder", "csv", "mnist"}},
    {"transform", "dataset.train.transforms", true, {"random_resized_crop", "resize", "normalize"}},
    {"batch_transform", "dataset.train.batch_transforms", true, {"mixup", "cutmix", ""}},
    {"sampler", "loader.sampler", false, {"weighted_random", "class_balanced", ""}},
    {"model", "model", false, {"resnet18", "mlp", "vit_tiny"}},
    {"layer", "model.layers", true, {"linear", "conv2d", "relu"}},
    {"loss", "loss", false, {"cross_entropy", "mse", "bce_with_logits"}},
    {"optimizer", "optimizer", false, {"adamw", "sgd", "adam"}},
    {"scheduler", "scheduler", false, {"cosine_annealing_lr", "step_lr", "one_cycle_lr"}},
    {"stopper", "early_stopping", false, {"patience", "", ""}},
    {"metric", "metrics", true, {"accuracy", "", ""}},
    {"logger", "loggers", true, {"csv", "tensorboard", ""}},
}};

const Kind* find_kind(std::string_view kind) {
  const auto* const found = std::ranges::find(kKinds, kind, &Kind::kind);
  return found == kKinds.end() ? nullptr : found;
}

}  // namespace

std::string quote(std::string_view text) {
  std::string safe = printable(text.substr(0, 4 * kLongestQuote));
  if (safe.size() <= kLongestQuote) return "'" + safe + "'";
  std::size_t end = kLongestQuote;
  while (end > 0 && (static_cast<unsigned char>(safe[end]) & 0xC0) == 0x80) --end;
  return "'" + safe.substr(0, end) + "...'";
}

std::string list_some(const std::vector<std::string>& words) {
  if (words.size() <= kMostListed) return join(words, ", ");
  const std::vector<std::string> first(words.begin(), words.begin() + kMostListed);
  return fmt::format("{} and {} more", join(first, ", "), words.size() - kMostListed);
}

std::string same_name(const std::string& name, const std::vector<std::string>& names) {
  const std::string plain = plain_word(name);
  const auto same = std::ranges::find(names, plain, plain_word);
  if (same != names.end()) return *same;
  for (const Synonyms& synonyms : kNames) {
    const bool means = std::ranges::count(split(synonyms.words, ' '), plain, plain_word) > 0;
    if (means && holds(names, synonyms.name)) return std::string(synonyms.name);
  }
  return "";
}

std::vector<std::string> short_names() {
  std::vector<std::string> words;
  for (const Synonyms& synonyms : kNames) {
    for (std::string& word : split(synonyms.words, ' ')) words.push_back(std::move(word));
  }
  return words;
}

std::string unknown_key_hint(const std::string& key, const std::vector<std::string>& keys) {
  if (const Alias* alias = find_alias(key)) {
    if (const std::string hint = alias_hint(*alias, keys); !hint.empty()) return hint;
  }
  if (keys.empty()) return "remove the key: no options are allowed here";
  if (const auto found = nearest(key, keys)) return did_you_mean(*found, keys);
  if (const std::size_t dot = key.find('.');
      dot != std::string::npos && holds(keys, std::string_view(key).substr(0, dot))) {
    return fmt::format("keys with dots work only in overrides; in a file, write '{}: {{{}: ...}}'",
                       key.substr(0, dot), key.substr(dot + 1));
  }
  if (const Alias* alias = near_alias(key)) {
    if (const std::string hint = alias_hint(*alias, keys); !hint.empty()) return hint;
  }
  return fmt::format("remove the key, or use one of: {}", list_some(keys));
}

std::string meant_name_hint(const std::string& name, const std::vector<std::string>& names) {
  const std::optional<std::string> found = meant_name(name, names);
  return found ? fmt::format("did you mean '{}'?", *found) : "";
}

std::string unknown_name_hint(const std::string& name, const std::vector<std::string>& names) {
  if (const auto found = meant_name(name, names)) return did_you_mean(*found, names);
  return fmt::format("expected one of: {}", list_some(names));
}

std::string usual_stage(const Vocabulary& vocabulary, std::string_view kind,
                        const std::vector<std::string>& keys) {
  const std::vector<std::string> names = vocabulary.names(kind);
  if (names.empty()) return "name";
  const Kind* known = find_kind(kind);
  const auto rank = [&](const std::string& name) {
    const Schema& schema = vocabulary.find(kind, name)->schema;
    const auto fits = std::ranges::count_if(
        keys, [&](const std::string& key) { return schema.find(key) != nullptr; });
    const auto usual =
        known == nullptr ? 0 : std::ranges::find(known->usual, name) - known->usual.begin();
    return std::tuple(-fits, usual, schema.fields.size());
  };
  return *std::ranges::min_element(names, {}, rank);
}

std::string stage_elsewhere_hint(const Vocabulary& vocabulary, std::string_view name,
                                 std::string_view except) {
  for (const Kind& kind : kKinds) {
    if (kind.kind == except || vocabulary.find(kind.kind, name) == nullptr) continue;
    std::string spoken(kind.kind);
    std::ranges::replace(spoken, '_', ' ');
    const char* article =
        std::string_view("aeio").find(spoken[0]) != std::string_view::npos ? "an" : "a";
    return fmt::format("it is {} {}: write '{}: {}{}{}'", article, spoken, kind.place,
                       kind.is_list ? "[" : "", name, kind.is_list ? "]" : "");
  }
  return "";
}

}  // namespace trainctl::config
