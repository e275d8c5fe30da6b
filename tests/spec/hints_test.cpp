#include "config/schema/explain.hpp"
#include "config/wording.hpp"
#include "experiment_yaml.hpp"
#include "spec/load.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

// The tables list keys that users of other programs write, with their location, and the content
// that the hint must have.

using namespace trainctl;

namespace {

struct WrittenKey {
  const char* key;
  const char* hint;
};

constexpr WrittenKey kLightning[]{
    {"trainer.strategy",
     "several devices train with DDP by default; for another strategy, set 'distributed.type'"},
    {"trainer.logger", "'loggers: [console, csv, tensorboard]' at the top level"},
    {"trainer.loggers", "'loggers' at the top level"},
    {"trainer.callbacks", "'early_stopping', 'checkpoint'"},
    {"callbacks", "'early_stopping', 'checkpoint'"},
    {"trainer.default_root_dir", "trainctl run --out DIR"},
    {"trainer.enable_progress_bar", "--progress none"},
    {"trainer.enable_model_summary", "trainctl plan CONFIG"},
    {"trainer.enable_checkpointing", "save_top_k: 0"},
    {"trainer.min_epochs", "early_stopping"},
    {"val_check_interval", "trainer.val_check_interval"},
    {"unfreeze_backbone_at_epoch", "unfreeze_at: [{epoch: 10"},
    {"trainer.limit_test_batches", "trainctl eval reads every sample"},
    {"benchmark", "trainer.benchmark"},
    {"trainer.cudnn_benchmark", "did you mean 'benchmark'?"},
    {"trainer.inference_mode", "remove the key"},
    {"trainer.use_distributed_sampler", "remove the key"},
    {"trainer.profiler", "'profiler' at the top level"},
    {"trainer.plugins", "'plugins' at the top level"},
    {"trainer.auto_lr_find", "trainctl lr-find CONFIG"},
    {"trainer.auto_scale_batch_size", "loader.batch_size: auto"},
    {"trainer.resume_from_checkpoint", "--resume last"},
    {"trainer.track_grad_norm", "trainer.log_norms"},
    {"trainer.stochastic_weight_avg", "did you mean 'swa'?"},
    {"trainer.gpus", "did you mean 'devices'?"},
    {"trainer.amp", "trainer.precision: 16-mixed"},
    {"max_epochs", "trainer.max_epochs"},
    {"accelerator", "trainer.accelerator"},
    {"precision", "trainer.precision"},
    {"checkpoint.dirpath", "--run-dir DIR"},
    {"checkpoint.filename", "names checkpoints by epoch and step"},
    {"checkpoint.every_n_train_steps", "did you mean 'every_n_steps'?"},
    {"model._target_", "class name in snake_case"},
    {"optimizer.class_path", "class name in snake_case"},
    {"ckpt_path", "--resume last"},
};

constexpr WrittenKey kTimm[]{
    {"num_classes", "the number of classes comes from the data"},
    {"model.num_classes", "the number of classes comes from the data"},
    {"model.pretrained", "weights: resnet18.pth"},
    {"pretrained", "weights: resnet18.pth"},
    {"initial_checkpoint", "weights: FILE"},
    {"val_split", "dataset.val"},
    {"data_dir", "dataset.train.root"},
    {"img_size", "random_resized_crop"},
    {"epochs", "trainer.max_epochs"},
    {"lr", "optimizer.lr"},
    {"weight_decay", "optimizer.weight_decay"},
    {"momentum", "optimizer.momentum"},
    {"opt", "did you mean 'optimizer'?"},
    {"sched", "did you mean 'scheduler'?"},
    {"warmup_epochs", "scheduler.warmup: 5ep"},
    {"warmup_lr", "warmup_start_factor"},
    {"drop_path", "stochastic_depth_prob: 0.1"},
    {"trainer.drop_path", "stochastic_depth_prob: 0.1"},
    {"model.drop_path_rate", "stochastic_depth_prob: 0.1"},
    {"decay_rate", "step_lr"},
    {"batch_size", "loader.batch_size"},
    {"workers", "loader.num_workers"},
    {"pin_mem", "loader.pin_memory"},
    {"mixup", "dataset.train.batch_transforms"},
    {"cutmix", "dataset.train.batch_transforms"},
    {"trainer.mixup", "dataset.train.batch_transforms"},
    {"dataset.train.mixup", "dataset.train.batch_transforms"},
    {"hflip", "random_horizontal_flip"},
    {"color_jitter", "dataset.train.transforms: [color_jitter]"},
    {"aa", "rand_augment"},
    {"reprob", "random_erasing"},
    {"smoothing", "label_smoothing: 0.1"},
    {"clip_grad", "trainer.gradient_clip_val"},
    {"model_ema", "trainer.ema"},
    {"model_ema_decay", "trainer.ema.decay"},
    {"sync_bn", "trainer.sync_batchnorm"},
    {"amp", "trainer.precision: 16-mixed"},
    {"log_interval", "trainer.log_every_n_steps"},
    {"checkpoint_hist", "checkpoint.save_top_k"},
    {"eval_metric", "checkpoint.monitor"},
    {"grad_accum_steps", "trainer.accumulate_grad_batches"},
    {"torchcompile", "models are not compiled"},
    {"output", "trainctl run --out DIR"},
};

constexpr WrittenKey kHuggingFace[]{
    {"output_dir", "trainctl run --out DIR"},
    {"do_train", "trainctl run, trainctl eval"},
    {"learning_rate", "optimizer.lr"},
    {"num_train_epochs", "trainer.max_epochs"},
    {"max_steps", "trainer.max_steps"},
    {"per_device_train_batch_size", "loader.batch_size"},
    {"per_device_eval_batch_size", "remove the key: all splits use loader.batch_size"},
    {"gradient_accumulation_steps", "trainer.accumulate_grad_batches"},
    {"max_grad_norm", "trainer.gradient_clip_val"},
    {"adam_beta1", "optimizer.betas: [0.9, 0.999]"},
    {"adam_epsilon", "optimizer.eps"},
    {"lr_scheduler_type", "cosine_annealing_lr"},
    {"warmup_ratio", "interval: step, warmup: 0.05"},
    {"warmup_steps", "interval: step, warmup: 500"},
    {"scheduler.num_warmup_steps", "interval: step, warmup: 500"},
    {"eval_strategy", "trainer.val_check_interval: 500"},
    {"save_steps", "checkpoint.every_n_steps"},
    {"save_total_limit", "checkpoint.save_top_k"},
    {"load_best_model_at_end", "best.safetensors"},
    {"metric_for_best_model", "checkpoint.monitor"},
    {"greater_is_better", "checkpoint.mode"},
    {"logging_steps", "trainer.log_every_n_steps"},
    {"report_to", "loggers: [console, csv, tensorboard]"},
    {"fp16", "trainer.precision: 16-mixed"},
    {"bf16", "trainer.precision: bf16-mixed"},
    {"tf32", "float32_matmul_precision: high"},
    {"dataloader_num_workers", "loader.num_workers"},
    {"dataloader_drop_last", "loader.drop_last"},
    {"gradient_checkpointing", "activation_checkpointing: blocks"},
    {"ddp_find_unused_parameters", "distributed.find_unused_parameters"},
    {"label_smoothing_factor", "label_smoothing: 0.1"},
    {"early_stopping_patience", "early_stopping: {type: patience"},
    {"no_cuda", "trainer.accelerator: cpu"},
    {"deepspeed", "zero1"},
    {"push_to_hub", "remove the key"},
    {"run_name", "did you mean 'name'?"},
};

void check_hint(const WrittenKey& written) {
  const std::string problems = problems_of({"++" + std::string(written.key) + "=1"});
  CAPTURE(written.key, problems);
  CHECK_THAT(problems, Contains("unknown key"));
  CHECK_THAT(problems, Contains(written.hint));
}

}  // namespace

TEST_CASE("hints: common keys of Lightning lead to those of trainctl", "[spec]") {
  for (const WrittenKey& written : kLightning) check_hint(written);
}

TEST_CASE("hints: common keys of timm lead to those of trainctl", "[spec]") {
  for (const WrittenKey& written : kTimm) check_hint(written);
}

TEST_CASE("hints: common keys of the Hugging Face Trainer lead to those of trainctl", "[spec]") {
  for (const WrittenKey& written : kHuggingFace) check_hint(written);
}

TEST_CASE("hints: no hint suggests the key that was rejected", "[spec]") {
  for (const config::Alias& alias : config::aliases()) {
    for (const char* section : {"trainer", "checkpoint", "loader", "distributed"}) {
      const std::string key = std::string(section) + "." + std::string(alias.word);
      const std::string problems = problems_of({"++" + key + "=1"});
      if (problems.find("unknown key") == std::string::npos) continue;
      CAPTURE(key, problems);
      CHECK_THAT(problems, !Contains("'" + key + "'"));
      CHECK_THAT(problems, !Contains("trainctl calls it '" + std::string(alias.word) + "'"));
    }
  }
}

TEST_CASE("explain: every suggested name is explained", "[spec]") {
  const auto& schema = spec::experiment_schema();
  const auto& vocabulary = spec::builtin_vocabulary();
  const std::vector<std::string> names = config::explained_names(schema, vocabulary);
  for (const char* name :
       {"optimizer.lr", "mixup", "cosine", "learning_rate", "limit_test_batches"})
    CHECK(std::ranges::find(names, name) != names.end());
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK_FALSE(config::explain_name(name, schema, vocabulary).empty());
  }
}

TEST_CASE("hints: a top-level key in any section gets a hint to the top level", "[spec]") {
  for (const std::string& key : spec::experiment_schema().keys()) {
    for (const char* section : {"trainer", "checkpoint", "loader"}) {
      const std::string problems = problems_of({"++" + std::string(section) + "." + key + "=1"});
      if (problems.find("unknown key") == std::string::npos) continue;
      CAPTURE(section, key, problems);
      CHECK_THAT(problems, Contains("at the top level"));
    }
  }
}

TEST_CASE("hints: a stage under the key of another kind gets a hint to its own key", "[spec]") {
  CHECK_THAT(problems_of({"dataset.train.transforms=[mixup]"}),
             Contains("unknown transform 'mixup'") &&
                 Contains("it is a batch transform: write 'dataset.train.batch_transforms: "
                          "[mixup]'"));
  CHECK_THAT(problems_of({"optimizer=step_lr"}), Contains("write 'scheduler: step_lr'"));
  CHECK_THAT(problems_of({"+accuracy=true"}), Contains("write 'metrics: [accuracy]'"));
}

TEST_CASE(
    "hints: the suggested type of a stage has the keys that are set, or else is the most common",
    "[spec]") {
  CHECK_THAT(problems_of({"~model", "~optimizer"}),
             Contains("add 'model: resnet18'") && Contains("add 'optimizer: adamw'"));
  CHECK_THAT(problems_of({"optimizer={lr: 0.1}"}), Contains("add 'type: adamw'"));
  CHECK_THAT(problems_of({"optimizer={lr: 0.1, momentum: 0.9}"}), Contains("add 'type: sgd'"));
  CHECK_THAT(problems_of({"+early_stopping={patience: 3}"}), Contains("add 'type: patience'"));
  CHECK_THAT(problems_of({"scheduler={step_size: 3}"}), Contains("add 'type: step_lr'"));
  CHECK_THAT(problems_of({"model={hidden: [3]}"}), Contains("add 'type: mlp'"));
  CHECK_THAT(problems_of({"~dataset.train.type"}), !Contains("add 'type: cifar10'"));
}

TEST_CASE("hints: every kind of stage has a key and a most common type", "[spec]") {
  const config::Vocabulary& vocabulary = spec::builtin_vocabulary();
  for (const std::string& kind : vocabulary.kinds()) {
    CAPTURE(kind);
    const std::string usual = config::usual_stage(vocabulary, kind);
    CHECK(vocabulary.find(kind, usual) != nullptr);
    CHECK_FALSE(config::stage_elsewhere_hint(vocabulary, usual, "").empty());
  }
}
