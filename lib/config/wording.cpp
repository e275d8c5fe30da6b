#include "config/wording.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>

// Names that users of PyTorch, Lightning, timm and the Hugging Face Trainer know, with our keys.

namespace trainctl::config {
namespace {

struct AliasGroup {
  const char* words;  // separated by spaces
  std::string_view key;
  std::string_view note = {};
};

// The first groups also list our own keys, which are often written at the wrong level. If a
// misspelled word is equally close to two words, the first one is suggested.
constexpr AliasGroup kGroups[] = {
    {"seed random_seed manual_seed seed_everything", "seed"},
    {"dataset data datamodule", "dataset"},
    {"loader dataloader data_loader train_loader", "loader"},
    {"model network net arch architecture", "model"},
    {"weights", "weights"},
    {"freeze", "freeze"},
    {"unfreeze_at", "unfreeze_at"},
    {"task", "task"},
    {"loss criterion loss_fn objective", "loss"},
    {"optimizer optim optimiser opt", "optimizer"},
    {"scheduler lr_scheduler lr_schedule sched", "scheduler"},
    {"early_stopping early_stop earlystopping", "early_stopping"},
    {"metrics", "metrics"},
    {"trainer", "trainer"},
    {"distributed ddp", "distributed"},
    {"checkpoint checkpointing ckpt", "checkpoint"},
    {"profiler", "profiler"},
    {"loggers", "loggers"},
    {"learning_rate learn_rate lr", "optimizer.lr"},
    {"weight_decay wd l2 decay", "optimizer.weight_decay"},
    {"momentum", "optimizer.momentum"},
    {"epsilon opt_eps adam_epsilon", "optimizer.eps"},
    {"beta1 beta2 adam_beta1 adam_beta2", "optimizer.betas",
     "write 'optimizer.betas: [0.9, 0.999]'"},
    {"epochs epoch num_epochs n_epochs num_train_epochs", "trainer.max_epochs"},
    {"max_iters num_steps iterations", "trainer.max_steps"},
    {"gpus num_gpus n_gpus auto_select_gpus", "trainer.devices"},
    {"device", "trainer.accelerator"},
    {"cuda use_cuda", "trainer.accelerator", "write 'trainer.accelerator: gpu'"},
    {"nodes nnodes num_nodes", "trainer.num_nodes"},
    {"amp use_amp fp16 mixed_precision fp16_opt_level", "trainer.precision",
     "write 'trainer.precision: 16-mixed'"},
    {"bf16 torch_dtype", "trainer.precision", "write 'trainer.precision: bf16-mixed'"},
    {"grad_clip clip_grad clip_grad_norm max_grad_norm gradient_clip", "trainer.gradient_clip_val"},
    {"gradient_accumulation_steps accumulation_steps grad_accum grad_accum_steps",
     "trainer.accumulate_grad_batches"},
    {"sync_batchnorm sync_batch_norm sync_bn", "trainer.sync_batchnorm"},
    {"channels_last", "trainer.channels_last"},
    {"cuda_graphs", "trainer.cuda_graphs"},
    {"activation_checkpointing", "trainer.activation_checkpointing"},
    {"ema", "trainer.ema"},
    {"float32_matmul_precision", "trainer.float32_matmul_precision"},
    {"budget", "dataset.cache.budget"},
    {"plugins", "plugins"},
    {"log_interval log_every logging_steps logging_strategy", "trainer.log_every_n_steps"},
    {"threads", "trainer.num_threads"},
    {"batch batchsize batch_size train_batch_size per_device_train_batch_size",
     "loader.batch_size"},
    {"workers n_workers dataloader_num_workers num_workers", "loader.num_workers"},
    {"prefetch dataloader_prefetch_factor", "loader.prefetch_factor"},
    {"pin_mem dataloader_pin_memory", "loader.pin_memory"},
    {"persistent_workers dataloader_persistent_workers", "",
     "workers always persist: remove the key"},
    {"multiprocessing_context", "", "workers are threads: remove the key"},
    {"worker_init_fn", "", "workers are seeded by trainctl: remove the key"},
    {"train_dataset train_data", "dataset.train"},
    {"val_dataset val_data valid validation", "dataset.val"},
    {"test_dataset", "dataset.test"},
    {"transform augmentations", "dataset.train.transforms"},
    {"data_dir path", "dataset.train.root"},
    {"patience early_stopping_patience", "early_stopping",
     "write 'early_stopping: {type: patience, patience: 3}'"},
    {"warmup", "scheduler.warmup"},
    {"warmup_steps num_warmup_steps", "scheduler.warmup",
     "for 500 steps, write 'scheduler: {type: cosine_annealing_lr, interval: step, warmup: 500}'"},
    {"warmup_epochs", "scheduler.warmup", "for 5 epochs, write 'scheduler.warmup: 5ep'"},
    {"save_every save_on_train_epoch_end", "checkpoint.every_n_epochs"},
    {"metric", "metrics"},
    {"experiment run_name", "name"},
    {"strategy", "distributed.type",
     "several devices train with DDP by default; for another strategy, set 'distributed.type'"},
    {"comm_hook", "distributed.compression"},
    {"local_sgd", "distributed.type", "write 'distributed: {type: local_sgd, sync_every: 8}'"},
    {"zero deepspeed fsdp", "distributed.type", "write 'distributed.type: zero1'"},
    {"dist_backend", "distributed.backend"},
    {"defaults", "extends", "list the base files under 'extends'"},
    {"include _base_", "extends"},
    {"hidden_sizes hidden_dims layers", "model.hidden"},
    {"name class_name kind", "type"},
    {"class_path _target_", "type",
     "write 'type: NAME' with the class name in snake_case, such as adamw for torch.optim.AdamW"},
    {"init_args params", "", "write the options next to 'type', without a separate map"},
    {"logger", "loggers",
     "write 'loggers: [console, csv, tensorboard]' at the top level of the file"},
    {"callbacks", "",
     "instead of callbacks, set 'early_stopping', 'checkpoint', 'trainer.ema', 'trainer.swa' or "
     "'profiler'"},
    {"default_root_dir output_dir output logging_dir weights_save_path", "",
     "set the parent folder of all runs with a flag: trainctl run --out DIR"},
    {"dirpath", "",
     "set the run folder, which contains the checkpoints, with a flag: trainctl run --run-dir DIR"},
    {"overwrite_output_dir", "", "every run creates a new folder: remove the key"},
    {"enable_progress_bar progress_bar_refresh_rate disable_tqdm", "",
     "turn off the progress bar with a flag: --progress none"},
    {"enable_model_summary", "",
     "trainctl plan CONFIG prints the parameters and the memory of the model: remove the key"},
    {"enable_checkpointing", "checkpoint",
     "to save no checkpoints, write 'checkpoint: {save_top_k: 0, save_last: false}'"},
    {"min_epochs", "",
     "remove the key; to train longer before an early stop, raise 'patience' of early_stopping"},
    {"min_steps", "",
     "remove the key; to train longer before an early stop, raise 'patience' of early_stopping"},
    {"limit_test_batches", "", "trainctl eval reads every sample of the split: remove the key"},
    {"limit_predict_batches", "",
     "trainctl predict reads every sample of the split: remove the key"},
    {"val_check_interval eval_steps", "trainer.val_check_interval"},
    {"eval_strategy evaluation_strategy", "trainer.val_check_interval",
     "for validations within an epoch, write 'trainer.val_check_interval: 500' (steps)"},
    {"benchmark cudnn_benchmark", "trainer.benchmark"},
    {"inference_mode", "", "evaluation never records gradients: remove the key"},
    {"use_distributed_sampler replace_sampler_ddp", "",
     "the samples are always divided among the ranks: remove the key"},
    {"reload_dataloaders_every_n_epochs", "", "the loader is created once per run: remove the key"},
    {"auto_scale_batch_size auto_find_batch_size", "loader.batch_size",
     "write 'loader.batch_size: auto'"},
    {"auto_lr_find", "", "use the command 'trainctl lr-find CONFIG'"},
    {"resume_from_checkpoint resume ckpt_path", "",
     "resume with a flag: trainctl run CONFIG --resume last"},
    {"track_grad_norm", "trainer.log_norms", "write 'trainer.log_norms: true'"},
    {"terminate_on_nan", "trainer.skip_nonfinite_steps",
     "a loss that is not finite always ends the run: remove the key"},
    {"stochastic_weight_avg", "trainer.swa"},
    {"swa_epoch_start", "trainer.swa.start_epoch"},
    {"tpu_cores", "trainer.accelerator",
     "trainctl trains on CPUs and NVIDIA GPUs: write 'trainer.accelerator: auto'"},
    {"every_n_train_steps save_steps", "checkpoint.every_n_steps"},
    {"min_delta early_stopping_threshold", "early_stopping",
     "write 'early_stopping: {type: patience, min_delta: 0.001}'"},
    {"monitor eval_metric metric_for_best_model", "checkpoint.monitor"},
    {"optimizer_idx", "", "an experiment has only one optimizer: remove the key"},
    {"precision half_precision_backend", "trainer.precision"},
    {"compile torch_compile torchcompile", "",
     "remove the key: models are not compiled; 'trainer.cuda_graphs' saves launch overhead"},
    {"num_classes n_classes num_labels", "",
     "the number of classes comes from the data: remove the key"},
    {"pretrained", "weights",
     "weights come from a file: write 'weights: resnet18.pth' at the top level"},
    {"initial_checkpoint checkpoint_path", "weights", "write 'weights: FILE' at the top level"},
    {"model_name_or_path", "model",
     "write 'model: {type: NAME}' and, for its weights, 'weights: FILE'"},
    {"model_name", "model.type", "write 'model: {type: NAME}'"},
    {"val_split validation_split", "dataset.split.val",
     "to use 10 % of the training set, write 'dataset.split: {val: 0.1}'; or add a separate data "
     "set as 'dataset.val'"},
    {"test_split", "dataset.split.test",
     "to use 10 % of the training set, write 'dataset.split: {test: 0.1}'; or add a separate data "
     "set as 'dataset.test'"},
    {"train_split", "dataset.train"},
    {"img_size image_size input_size", "dataset.train.transforms",
     "set the image size with a transform: {type: random_resized_crop, size: 224}"},
    {"crop_pct", "dataset.val.transforms",
     "write [{type: resize, size: 256}, {type: center_crop, size: 224}] as dataset.val.transforms"},
    {"hflip", "dataset.train.transforms",
     "write the transform {type: random_horizontal_flip, p: 0.5}"},
    {"vflip", "dataset.train.transforms",
     "write the transform {type: random_vertical_flip, p: 0.5}"},
    {"aa", "dataset.train.transforms",
     "write one of the transforms rand_augment, auto_augment, trivial_augment_wide"},
    {"auto_augment", "dataset.train.transforms",
     "write 'dataset.train.transforms: [auto_augment]'"},
    {"reprob", "dataset.train.transforms", "write the transform {type: random_erasing, p: 0.25}"},
    {"mixup", "dataset.train.batch_transforms",
     "write 'dataset.train.batch_transforms: [{type: mixup, alpha: 0.2}]'"},
    {"cutmix", "dataset.train.batch_transforms",
     "write 'dataset.train.batch_transforms: [{type: cutmix, alpha: 1.0}]'"},
    {"mixup_alpha", "dataset.train.batch_transforms",
     "write 'dataset.train.batch_transforms: [{type: mixup, alpha: 0.2}]'"},
    {"cutmix_alpha", "dataset.train.batch_transforms",
     "write 'dataset.train.batch_transforms: [{type: cutmix, alpha: 1.0}]'"},
    {"smoothing label_smoothing label_smoothing_factor", "loss.label_smoothing",
     "write 'loss: {type: cross_entropy, label_smoothing: 0.1}'"},
    {"opt_betas", "optimizer.betas"},
    {"clip_mode", "trainer.gradient_clip_algorithm"},
    {"min_lr", "scheduler", "write 'scheduler: {type: cosine_annealing_lr, eta_min: 1e-5}'"},
    {"warmup_lr", "scheduler.warmup_start_factor",
     "to start at 1 % of the learning rate, write 'scheduler.warmup_start_factor: 0.01'"},
    {"drop_path drop_path_rate", "model.stochastic_depth_prob",
     "some models have this option: write 'model: {type: convnext_tiny, stochastic_depth_prob: "
     "0.1}'"},
    {"filename", "", "trainctl names checkpoints by epoch and step: remove the key"},
    {"decay_epochs decay_rate", "scheduler",
     "write 'scheduler: {type: step_lr, step_size: 30, gamma: 0.1}'"},
    {"patience_epochs", "scheduler",
     "write 'scheduler: {type: reduce_lr_on_plateau, patience: 10}'"},
    {"model_ema", "trainer.ema", "write 'trainer.ema: {decay: 0.9999}'"},
    {"model_ema_decay ema_decay", "trainer.ema.decay"},
    {"amp_dtype", "trainer.precision", "write 'trainer.precision: 16-mixed' or bf16-mixed"},
    {"checkpoint_hist save_total_limit", "checkpoint.save_top_k"},
    {"no_prefetcher", "",
     "remove the key, and set 'loader.num_workers' and 'loader.prefetch_factor' instead"},
    {"validation_batch_size eval_batch_size val_batch_size per_device_eval_batch_size",
     "loader.batch_size", "remove the key: all splits use loader.batch_size"},
    {"do_train do_eval do_predict", "",
     "remove the key, and use the commands trainctl run, trainctl eval and trainctl predict"},
    {"lr_scheduler_type", "scheduler.type", "write 'scheduler: {type: cosine_annealing_lr}'"},
    {"warmup_ratio", "scheduler.warmup",
     "for 5 % of the run, write 'scheduler: {type: cosine_annealing_lr, interval: step, warmup: "
     "0.05}'"},
    {"save_strategy", "checkpoint.every_n_epochs"},
    {"save_safetensors", "", "weights are always saved as safetensors: remove the key"},
    {"load_best_model_at_end", "early_stopping",
     "the best weights are always kept in checkpoints/best.safetensors: remove the key"},
    {"greater_is_better", "checkpoint.mode", "write 'checkpoint.mode: max' or min"},
    {"data_seed", "seed", "set 'seed' at the top level: it determines all random numbers"},
    {"tf32 allow_tf32", "trainer.float32_matmul_precision",
     "write 'trainer.float32_matmul_precision: high'"},
    {"dataloader_drop_last", "loader.drop_last"},
    {"report_to wandb tensorboard", "loggers",
     "write 'loggers: [console, csv, tensorboard]' at the top level"},
    {"gradient_checkpointing", "trainer.activation_checkpointing",
     "write 'trainer.activation_checkpointing: blocks'"},
    {"ddp_find_unused_parameters find_unused_parameters", "distributed.find_unused_parameters"},
    {"ddp_bucket_cap_mb", "distributed.bucket_cap_mb"},
    {"use_cpu no_cuda", "trainer.accelerator", "write 'trainer.accelerator: cpu'"},
    {"local_rank", "", "trainctl, torchrun, Slurm or MPI sets the rank: remove the key"},
    {"world_size", "trainer.devices",
     "write 'trainer.devices' and, for several machines, 'trainer.num_nodes'"},
    {"unfreeze_backbone_at_epoch unfreeze_epoch", "unfreeze_at",
     "write 'unfreeze_at: [{epoch: 10, match: [backbone]}]' next to 'freeze'"},
    {"push_to_hub", "", "trainctl uploads nothing: remove the key"},
    {"debug dry_run", "trainer.fast_dev_run", "write 'trainer.fast_dev_run: true'"},
    {"val_loader", "loader", "remove the key: all splits use the settings of 'loader'"},
};

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

constexpr std::array<Kind, 13> kKinds{{
    {"dataset", "dataset.train", false, {"image_folder", "csv", "mnist"}},
    {"transform", "dataset.train.transforms", true, {"random_resized_crop", "resize", "normalize"}},
    {"batch_transform", "dataset.train.batch_transforms", true, {"mixup", "cutmix", ""}},
    {"sampler", "loader.sampler", false, {"weighted_random", "class_balanced", ""}},
    {"model", "model", false, {"resnet18", "mlp", "vit_tiny"}},
    {"layer", "model.layers", true, {"linear", "conv2d", "relu"}},
    {"task", "task", false, {"classification", "regression", ""}},
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

std::span<const Alias> aliases() {
  static const std::vector<Alias> all = [] {
    std::vector<Alias> aliases;
    for (const AliasGroup& group : kGroups) {
      for (std::string& word : split(group.words, ' '))
        aliases.push_back({std::move(word), group.key, group.note});
    }
    return aliases;
  }();
  return all;
}

const Alias* find_alias(std::string_view word) {
  std::string key(word);
  std::ranges::replace(key, '-', '_');
  const auto found = std::ranges::find(aliases(), key, &Alias::word);
  return found == aliases().end() ? nullptr : &*found;
}

std::string quote(std::string_view text) {
  std::string safe = printable(text.substr(0, 4 * kLongestQuote));
  if (safe.size() <= kLongestQuote) return "'" + safe + "'";
  return fmt::format("'{}...'", utf8_start(safe, kLongestQuote));
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
