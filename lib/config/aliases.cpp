#include "base/strings.hpp"
#include "config/wording.hpp"

#include <algorithm>

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
    {"beta1 beta2 adam_beta1 adam_beta2", "optimizer.betas", "'betas' holds both: [0.9, 0.999]"},
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
     "a warm-up of 500 steps: write 'scheduler: {interval: step, warmup: 500}' with its 'type'"},
    {"warmup_epochs", "scheduler.warmup", "a warm-up of 5 epochs: write 'scheduler.warmup: 5ep'"},
    {"save_every save_on_train_epoch_end", "checkpoint.every_n_epochs"},
    {"metric", "metrics"},
    {"experiment run_name", "name"},
    {"strategy", "distributed.type", "more than one device already trains with DDP"},
    {"comm_hook", "distributed.compression"},
    {"local_sgd", "distributed.type", "write 'distributed: {type: local_sgd, sync_every: 8}'"},
    {"zero deepspeed fsdp", "distributed.type", "write 'distributed.type: zero1'"},
    {"dist_backend", "distributed.backend"},
    {"defaults", "extends", "list the base files under 'extends'"},
    {"include _base_", "extends"},
    {"hidden_sizes hidden_dims layers", "model.hidden"},
    {"name class_name kind", "type"},
    {"class_path _target_", "type",
     "write 'type: NAME', the class name in snake_case: torch.optim.AdamW is adamw"},
    {"init_args params", "", "write the options next to 'type', without a separate map"},
    {"logger", "loggers",
     "loggers are a separate list: write 'loggers: [console, csv, tensorboard]' at the top "
     "level"},
    {"callbacks", "",
     "use the keys 'early_stopping', 'checkpoint', 'trainer.ema', "
     "'trainer.swa', 'profiler'"},
    {"default_root_dir output_dir output logging_dir weights_save_path", "",
     "the folder of the runs is a flag: trainctl run --out DIR"},
    {"dirpath", "", "checkpoints are in the run folder: trainctl run --run-dir DIR"},
    {"overwrite_output_dir", "", "every run has a new folder: remove the key"},
    {"enable_progress_bar progress_bar_refresh_rate disable_tqdm", "",
     "the progress bar is a flag: --progress none"},
    {"enable_model_summary", "",
     "trainctl plan CONFIG prints the parameters and the memory of the model: remove the key"},
    {"enable_checkpointing", "checkpoint",
     "write 'checkpoint: {save_top_k: 0, save_last: false}' for no checkpoints"},
    {"min_epochs", "",
     "a run ends after trainer.max_epochs or by 'early_stopping', whose 'patience' sets the least "
     "number of epochs: remove the key"},
    {"min_steps", "", "a run ends after trainer.max_steps or by 'early_stopping': remove the key"},
    {"limit_test_batches", "", "trainctl eval reads every sample of the split: remove the key"},
    {"limit_predict_batches", "",
     "trainctl predict takes every sample of the split: remove the key"},
    {"val_check_interval eval_steps eval_strategy evaluation_strategy",
     "trainer.check_val_every_n_epoch",
     "validation comes at the end of an epoch: write 'trainer.check_val_every_n_epoch: 1'"},
    {"benchmark", "",
     "cuDNN chooses its kernels by measurement unless 'trainer.deterministic: true': remove the "
     "key"},
    {"inference_mode", "", "evaluation never records gradients: remove the key"},
    {"use_distributed_sampler replace_sampler_ddp", "",
     "ranks always share the samples: remove the key"},
    {"reload_dataloaders_every_n_epochs", "", "the data is read once: remove the key"},
    {"auto_scale_batch_size auto_find_batch_size", "loader.batch_size",
     "write 'loader.batch_size: auto'"},
    {"auto_lr_find", "", "use the command 'trainctl lr-find CONFIG'"},
    {"resume_from_checkpoint resume ckpt_path", "",
     "resuming is a flag: trainctl run CONFIG --resume last"},
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
    {"optimizer_idx", "", "there is one optimizer: remove the key"},
    {"precision half_precision_backend", "trainer.precision"},
    {"compile torch_compile torchcompile", "",
     "there is no compiler pass: remove the key; 'trainer.cuda_graphs' saves the overhead of "
     "launches"},
    {"num_classes n_classes num_labels", "",
     "the number of classes comes from the data: remove the key"},
    {"pretrained", "weights",
     "weights come from a file: write 'weights: resnet18.pth' at the top level"},
    {"initial_checkpoint checkpoint_path", "weights", "write 'weights: FILE' at the top level"},
    {"model_name_or_path", "model",
     "write 'model: {type: NAME}' and, for its weights, 'weights: FILE'"},
    {"model_name", "model.type", "write 'model: {type: NAME}'"},
    {"val_split validation_split", "dataset.split.val",
     "take a share of the training set: write 'dataset.split: {val: 0.1}'; or add a separate data "
     "set as 'dataset.val'"},
    {"test_split", "dataset.split.test",
     "take a share of the training set: write 'dataset.split: {test: 0.1}'; or add a separate data "
     "set as 'dataset.test'"},
    {"train_split", "dataset.train"},
    {"img_size image_size input_size", "dataset.train.transforms",
     "the size of images is that of their transforms: {type: random_resized_crop, size: 224}"},
    {"crop_pct", "dataset.val.transforms",
     "write [{type: resize, size: 256}, {type: center_crop, size: 224}] as dataset.val.transforms"},
    {"hflip", "dataset.train.transforms",
     "write the transform {type: random_horizontal_flip, p: 0.5}"},
    {"vflip", "dataset.train.transforms",
     "write the transform {type: random_vertical_flip, p: 0.5}"},
    {"aa", "dataset.train.transforms",
     "write one of the transforms rand_augment, auto_augment, trivial_augment_wide"},
    {"auto_augment", "dataset.train.transforms",
     "it is a transform: write 'dataset.train.transforms: [auto_augment]'"},
    {"reprob", "dataset.train.transforms", "write the transform {type: random_erasing, p: 0.25}"},
    {"mixup", "dataset.train.batch_transforms",
     "it mixes batches: write 'dataset.train.batch_transforms: [{type: mixup, alpha: 0.2}]'"},
    {"cutmix", "dataset.train.batch_transforms",
     "it mixes batches: write 'dataset.train.batch_transforms: [{type: cutmix, alpha: 1.0}]'"},
    {"mixup_alpha", "dataset.train.batch_transforms",
     "write 'dataset.train.batch_transforms: [{type: mixup, alpha: 0.2}]'"},
    {"cutmix_alpha", "dataset.train.batch_transforms",
     "write 'dataset.train.batch_transforms: [{type: cutmix, alpha: 1.0}]'"},
    {"smoothing label_smoothing label_smoothing_factor", "loss.label_smoothing",
     "write 'loss: {type: cross_entropy, label_smoothing: 0.1}'"},
    {"opt_betas", "optimizer.betas"},
    {"clip_mode", "trainer.gradient_clip_algorithm"},
    {"min_lr", "scheduler",
     "it is an option of the schedule: write 'scheduler: {type: cosine_annealing_lr, eta_min: "
     "1e-5}'"},
    {"warmup_lr", "scheduler.warmup_start_factor",
     "it is a fraction of the learning rate: write 'scheduler.warmup_start_factor: 0.01'"},
    {"drop_path drop_path_rate", "model.stochastic_depth_prob",
     "it is an option of some models: write 'model: {type: convnext_tiny, stochastic_depth_prob: "
     "0.1}'"},
    {"filename", "",
     "checkpoints are named by epoch and step in the run folder's 'checkpoints': remove the key"},
    {"decay_epochs decay_rate", "scheduler",
     "write 'scheduler: {type: step_lr, step_size: 30, gamma: 0.1}'"},
    {"patience_epochs", "scheduler",
     "write 'scheduler: {type: reduce_lr_on_plateau, patience: 10}'"},
    {"model_ema", "trainer.ema", "write 'trainer.ema: {decay: 0.9999}'"},
    {"model_ema_decay ema_decay", "trainer.ema.decay"},
    {"amp_dtype", "trainer.precision", "write 'trainer.precision: 16-mixed' or bf16-mixed"},
    {"checkpoint_hist save_total_limit", "checkpoint.save_top_k"},
    {"no_prefetcher", "",
     "the loader is set by 'loader.num_workers' and 'loader.prefetch_factor': remove the key"},
    {"validation_batch_size eval_batch_size val_batch_size per_device_eval_batch_size",
     "loader.batch_size", "all splits have the same batch size"},
    {"do_train do_eval do_predict", "",
     "each command does one thing: trainctl run, trainctl eval, trainctl predict"},
    {"lr_scheduler_type", "scheduler.type", "write 'scheduler: {type: cosine_annealing_lr}'"},
    {"warmup_ratio", "scheduler.warmup",
     "a warm-up of 5 % of the run: write 'scheduler: {interval: step, warmup: 0.05}' with its "
     "'type'"},
    {"save_strategy", "checkpoint.every_n_epochs"},
    {"save_safetensors", "", "weights are always saved as safetensors: remove the key"},
    {"load_best_model_at_end", "early_stopping",
     "the best weights are always kept in checkpoints/best.safetensors: remove the key"},
    {"greater_is_better", "checkpoint.mode", "write 'checkpoint.mode: max' or min"},
    {"data_seed", "seed", "one 'seed' at the top level decides everything"},
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
    {"local_rank", "",
     "trainctl starts the ranks itself, or takes them from torchrun, Slurm or MPI: remove the key"},
    {"world_size", "trainer.devices",
     "write 'trainer.devices' and, for several machines, 'trainer.num_nodes'"},
    {"push_to_hub", "", "trainctl uploads nothing: remove the key"},
    {"debug dry_run", "trainer.fast_dev_run", "write 'trainer.fast_dev_run: true'"},
    {"val_loader", "loader", "one 'loader' serves all splits"},
};

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

}  // namespace trainctl::config
