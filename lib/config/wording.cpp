#include "config/wording.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace trainctl::config {
namespace {

constexpr std::size_t kLongestQuote = 60;
constexpr std::size_t kMostListed = 12;

constexpr std::string_view kLater = "not in this release: remove the key";

// Names that are planned, and that nothing here stands for.
constexpr std::string_view kLaterNames[] = {"tensorboard", "html"};

constexpr Alias kKeys[] = {
    {"learning_rate", "optimizer.lr", ""},
    {"lr", "optimizer.lr", ""},
    {"weight_decay", "optimizer.weight_decay", ""},
    {"momentum", "optimizer.momentum", ""},
    {"wd", "optimizer.weight_decay", ""},
    {"l2", "optimizer.weight_decay", ""},
    {"decay", "optimizer.weight_decay", ""},
    {"epsilon", "optimizer.eps", ""},
    {"beta1", "optimizer.betas", "'betas' holds both: [0.9, 0.999]"},
    {"beta2", "optimizer.betas", "'betas' holds both: [0.9, 0.999]"},
    {"optim", "optimizer", ""},
    {"optimiser", "optimizer", ""},
    {"criterion", "loss", ""},
    {"loss_fn", "loss", ""},
    {"objective", "loss", ""},
    {"lr_scheduler", "scheduler", ""},
    {"lr_schedule", "scheduler", ""},
    {"network", "model", ""},
    {"net", "model", ""},
    {"arch", "model", ""},
    {"architecture", "model", ""},
    {"epochs", "trainer.max_epochs", ""},
    {"epoch", "trainer.max_epochs", ""},
    {"num_epochs", "trainer.max_epochs", ""},
    {"n_epochs", "trainer.max_epochs", ""},
    {"num_train_epochs", "trainer.max_epochs", ""},
    {"max_iters", "trainer.max_steps", ""},
    {"num_steps", "trainer.max_steps", ""},
    {"iterations", "trainer.max_steps", ""},
    {"gpus", "trainer.devices", ""},
    {"num_gpus", "trainer.devices", ""},
    {"n_gpus", "trainer.devices", ""},
    {"device", "trainer.accelerator", ""},
    {"cuda", "trainer.accelerator", "write 'trainer.accelerator: gpu'"},
    {"use_cuda", "trainer.accelerator", "write 'trainer.accelerator: gpu'"},
    {"nodes", "trainer.num_nodes", ""},
    {"nnodes", "trainer.num_nodes", ""},
    {"num_nodes", "trainer.num_nodes", ""},
    {"amp", "trainer.precision", "write 'trainer.precision: 16-mixed'"},
    {"use_amp", "trainer.precision", "write 'trainer.precision: 16-mixed'"},
    {"fp16", "trainer.precision", "write 'trainer.precision: 16-mixed'"},
    {"bf16", "trainer.precision", "write 'trainer.precision: bf16-mixed'"},
    {"mixed_precision", "trainer.precision", "write 'trainer.precision: 16-mixed'"},
    {"grad_clip", "trainer.gradient_clip_val", ""},
    {"clip_grad", "trainer.gradient_clip_val", ""},
    {"clip_grad_norm", "trainer.gradient_clip_val", ""},
    {"max_grad_norm", "trainer.gradient_clip_val", ""},
    {"gradient_clip", "trainer.gradient_clip_val", ""},
    {"gradient_accumulation_steps", "trainer.accumulate_grad_batches", ""},
    {"accumulation_steps", "trainer.accumulate_grad_batches", ""},
    {"grad_accum", "trainer.accumulate_grad_batches", ""},
    {"val_check_interval", "", kLater},
    {"sync_batchnorm", "trainer.sync_batchnorm", ""},
    {"sync_batch_norm", "trainer.sync_batchnorm", ""},
    {"channels_last", "trainer.channels_last", ""},
    {"cuda_graphs", "trainer.cuda_graphs", ""},
    {"activation_checkpointing", "trainer.activation_checkpointing", ""},
    {"ema", "trainer.ema", ""},
    {"float32_matmul_precision", "trainer.float32_matmul_precision", ""},
    {"budget", "dataset.cache.budget", ""},
    {"plugins", "plugins", ""},
    {"log_interval", "trainer.log_every_n_steps", ""},
    {"log_every", "trainer.log_every_n_steps", ""},
    {"logging_steps", "trainer.log_every_n_steps", ""},
    {"threads", "trainer.num_threads", ""},
    {"batch", "loader.batch_size", ""},
    {"batchsize", "loader.batch_size", ""},
    {"batch_size", "loader.batch_size", ""},
    {"train_batch_size", "loader.batch_size", ""},
    {"per_device_train_batch_size", "loader.batch_size", ""},
    {"workers", "loader.num_workers", ""},
    {"n_workers", "loader.num_workers", ""},
    {"dataloader_num_workers", "loader.num_workers", ""},
    {"num_workers", "loader.num_workers", ""},
    {"prefetch", "loader.prefetch_factor", ""},
    {"pin_mem", "loader.pin_memory", ""},
    {"persistent_workers", "", "workers always persist: remove the key"},
    {"multiprocessing_context", "", "workers are threads: remove the key"},
    {"worker_init_fn", "", "workers are seeded by trainctl: remove the key"},
    {"dataloader", "loader", ""},
    {"data_loader", "loader", ""},
    {"data", "dataset", ""},
    {"datamodule", "dataset", ""},
    {"train_dataset", "dataset.train", ""},
    {"train_data", "dataset.train", ""},
    {"val_dataset", "dataset.val", ""},
    {"val_data", "dataset.val", ""},
    {"valid", "dataset.val", ""},
    {"validation", "dataset.val", ""},
    {"test_dataset", "dataset.test", ""},
    {"transform", "dataset.train.transforms", ""},
    {"augmentations", "dataset.train.transforms", ""},
    {"data_dir", "dataset.train.root", ""},
    {"path", "dataset.train.root", ""},
    {"early_stop", "early_stopping", ""},
    {"earlystopping", "early_stopping", ""},
    {"patience", "early_stopping", "write 'early_stopping: {type: patience, patience: 3}'"},
    {"warmup", "scheduler.warmup", ""},
    {"warmup_steps", "scheduler.warmup", ""},
    {"warmup_epochs", "scheduler.warmup", ""},
    {"num_warmup_steps", "scheduler.warmup", ""},
    {"checkpointing", "checkpoint", ""},
    {"ckpt", "checkpoint", ""},
    {"save_every", "checkpoint.every_n_epochs", ""},
    {"logger", "loggers", ""},
    {"metric", "metrics", ""},
    {"random_seed", "seed", ""},
    {"manual_seed", "seed", ""},
    {"experiment", "name", ""},
    {"run_name", "name", ""},
    {"ddp", "distributed", ""},
    {"strategy", "distributed.type", "more than one device already trains with DDP"},
    {"comm_hook", "distributed.compression", ""},
    {"local_sgd", "distributed.type", "write 'distributed: {type: local_sgd, sync_every: 8}'"},
    {"zero", "distributed.type", "write 'distributed.type: zero1'"},
    {"dist_backend", "distributed.backend", ""},
    {"defaults", "extends", "list the base files under 'extends'"},
    {"include", "extends", ""},
    {"_base_", "extends", ""},
    {"hidden_sizes", "model.hidden", ""},
    {"hidden_dims", "model.hidden", ""},
    {"layers", "model.hidden", ""},
    {"name", "type", ""},
    {"class_name", "type", ""},
    {"class_path", "type", ""},
    {"init_args", "", "options stand beside 'type', without a map of their own"},
    {"params", "", "options stand beside 'type', without a map of their own"},
    {"_target_", "type", ""},
    {"kind", "type", ""},
};

struct Synonym {
  std::string_view word;
  std::string_view name;
};

constexpr Synonym kNames[] = {
    {"ce", "cross_entropy"},
    {"nll", "cross_entropy"},
    {"crossentropyloss", "cross_entropy"},
    {"mseloss", "mse"},
    {"l2", "mse"},
    {"step", "step_lr"},
    {"multistep", "multi_step_lr"},
    {"exponential", "exponential_lr"},
    {"cosine", "cosine_annealing_lr"},
    {"plateau", "reduce_lr_on_plateau"},
    {"constant", "constant_lr"},
    {"none", "constant_lr"},
    {"cuda", "gpu"},
    {"16", "16-mixed"},
    {"fp16", "16-mixed"},
    {"float16", "16-mixed"},
    {"half", "16-mixed"},
    {"bf16", "bf16-mixed"},
    {"bfloat16", "bf16-mixed"},
    {"32", "32-true"},
    {"fp32", "32-true"},
    {"float32", "32-true"},
    {"full", "32-true"},
    {"minimum", "min"},
    {"maximum", "max"},
    {"hflip", "random_horizontal_flip"},
    {"acc", "accuracy"},
    {"top5", "top_k_accuracy"},
    {"ffn", "mlp"},
    {"logistic_regression", "linear"},
    {"valid", "test"},
    {"val", "test"},
};

// "torch.optim.AdamW" and "adam_w" are the same word: the last part, lower case, letters and digits
// only.
std::string plain_word(std::string_view name) {
  if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos)
    name.remove_prefix(dot + 1);
  std::string word;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return word;
}

bool holds(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::optional<std::string> meant_name(const std::string& name,
                                      const std::vector<std::string>& names) {
  const std::string plain = plain_word(name);
  for (const std::string& candidate : names) {
    if (plain_word(candidate) == plain) return candidate;
  }
  for (const Synonym& synonym : kNames) {
    if (plain_word(synonym.word) == plain && holds(names, synonym.name))
      return std::string(synonym.name);
  }
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return nearest(lower, names);
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
  return alias.key == "type" ? "" : fmt::format("trainctl calls it '{}'", alias.key);
}

// The alias that `key` is a slip of: 'learning_rte'.
const Alias* near_alias(const std::string& key) {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all;
    for (const Alias& alias : kKeys) {
      if (alias.word.size() > 5) all.emplace_back(alias.word);
    }
    return all;
  }();
  const std::optional<std::string> word = nearest(key, words);
  return word && edit_distance(key, *word) <= 2 ? find_alias(*word) : nullptr;
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

std::span<const Alias> aliases() { return kKeys; }

const Alias* find_alias(std::string_view word) {
  const auto* const found = std::ranges::find(kKeys, word, &Alias::word);
  return found == std::end(kKeys) ? nullptr : found;
}

std::string unknown_key_hint(const std::string& key, const std::vector<std::string>& keys) {
  if (const Alias* alias = find_alias(key)) {
    if (const std::string hint = alias_hint(*alias, keys); !hint.empty()) return hint;
  }
  if (keys.empty()) return "it takes no options: remove the key";
  if (const std::optional<std::string> found = nearest(key, keys))
    return did_you_mean(*found, keys);
  if (const std::size_t dot = key.find('.');
      dot != std::string::npos && holds(keys, std::string_view(key).substr(0, dot))) {
    return fmt::format("dots work in overrides only; in a file write '{}: {{{}: ...}}'",
                       key.substr(0, dot), key.substr(dot + 1));
  }
  if (const Alias* alias = near_alias(key)) {
    if (const std::string hint = alias_hint(*alias, keys); !hint.empty()) return hint;
  }
  return fmt::format("remove it; the keys here are: {}", list_some(keys));
}

std::string meant_name_hint(const std::string& name, const std::vector<std::string>& names) {
  if (std::ranges::find(kLaterNames, name) != std::end(kLaterNames)) return "not in this release";
  const std::optional<std::string> found = meant_name(name, names);
  return found ? fmt::format("did you mean '{}'?", *found) : "";
}

std::string unknown_name_hint(const std::string& name, const std::vector<std::string>& names) {
  if (const std::optional<std::string> found = meant_name(name, names))
    return did_you_mean(*found, names);
  return fmt::format("expected one of: {}", list_some(names));
}

}  // namespace trainctl::config
