#include "spec/experiment/experiment.hpp"

#include "spec/options/logger.hpp"
#include "spec/options/loss.hpp"
#include "spec/options/metric.hpp"
#include "spec/options/scheduler.hpp"
#include "spec/options/stopper.hpp"
#include "spec/options/task.hpp"

#include <fmt/format.h>

#include <cmath>
#include <unordered_set>

namespace trainctl::spec {
namespace {

std::int64_t rounded_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t planned_batches(const Experiment& experiment, std::int64_t samples, int ranks) {
  const std::int64_t global = experiment.loader.batch_size * ranks;
  const std::int64_t whole =
      experiment.loader.drop_last ? samples / global : rounded_up(samples, global);
  const Trainer& trainer = experiment.trainer;
  return trainer.overfit_batches > 0 ? std::min(trainer.overfit_batches, whole)
                                     : trainer.limit_train_batches.of(whole);
}

}  // namespace

config::Stage default_task() { return config::make_stage("task", "auto", task::Auto{}); }

config::Stage default_loss() {
  return config::make_stage("loss", "cross_entropy", loss::CrossEntropy{});
}

config::Stage default_scheduler() {
  return config::make_stage("scheduler", "constant", scheduler::Constant{});
}

std::vector<config::Stage> default_loggers() {
  return {config::make_stage("logger", "console", logger::Console{}),
          config::make_stage("logger", "csv", logger::Csv{}),
          config::make_stage("logger", "jsonl", logger::Jsonl{}),
          config::make_stage("logger", "html", logger::Html{})};
}

namespace {

void describe_length(config::Describe<Trainer>& options) {
  options.field(
      "max_epochs", &Trainer::max_epochs, {.at_least = 1, .at_most = 1'000'000, .example = "20"},
      "Maximum number of epochs; absent: 10, or no limit if max_steps or max_time is set.");
  options.field("max_steps", &Trainer::max_steps, {.at_least = 1, .example = "1000"},
                "Maximum number of optimizer steps; absent: no limit.");
  options.field("max_time", &Trainer::max_time, {.not_empty = true, .example = "\"00:12:00:00\""},
                "Maximum training time: DD:HH:MM:SS, or 90s, 30m, 2h; absent: no limit.");
}

void describe_numbers(config::Describe<Trainer>& options) {
  options.field("precision", &Trainer::precision,
                "Training precision. 32-true: float32 throughout; bf16-mixed and "
                "16-mixed: matrix products and convolutions in 16 bits, weights in float32.");
  options.field("allow_slow_precision", &Trainer::allow_slow_precision,
                "Allows 16-bit precision on a CPU without instructions for it.");
  options.field("float32_matmul_precision", &Trainer::float32_matmul_precision,
                "Internal precision of float32 matrix products, and of convolutions on a GPU. "
                "highest: IEEE float32; high: TF32; medium: TF32 on a GPU, bfloat16 on a CPU.");
  options.field("channels_last", &Trainer::channels_last,
                "Stores images and convolution weights in channels-last memory format (NHWC); "
                "auto: on a GPU if 16-bit training is dominated by convolutions, on a CPU if this "
                "is at least 1.15 times as fast in a short benchmark.");
  options.field(
      "activation_checkpointing", &Trainer::activation_checkpointing,
      "blocks: stores only the input of each block and recomputes the other activations in the "
      "backward pass: less memory, more time, the same gradients; auto: only if a step would not "
      "fit in memory otherwise, as estimated from a few samples at the start.");
  options.field("benchmark", &Trainer::benchmark,
                "Times cuDNN's convolution kernels for each input shape and uses the fastest, as "
                "torch.backends.cudnn.benchmark; auto: on a GPU, unless 'deterministic' is true.");
  options.field("cuda_graphs", &Trainer::cuda_graphs,
                "Captures training steps as CUDA graphs and replays them. If a step cannot be "
                "captured, true: the run fails; auto: operations run one by one, and the log "
                "contains the reason.");
}

void describe_batches(config::Describe<Trainer>& options) {
  options.field("limit_train_batches", &Trainer::limit_train_batches, {.above = 0},
                "Batches per training epoch: 100 is a number, 0.1 a fraction, 1.0 all.");
  options.field(
      "limit_val_batches", &Trainer::limit_val_batches, {.at_least = 0},
      "Batches per validation: 100 is a number, 0.1 a fraction, 1.0 all; 0: no validation.");
  options.field("overfit_batches", &Trainer::overfit_batches, {.at_least = 0},
                "Number of batches to train on, always the first ones, without shuffling; 0: off.");
  options.field("fast_dev_run", &Trainer::fast_dev_run,
                "Runs one training batch and one validation batch, to test the config.");
  options.field("num_sanity_val_steps", &Trainer::num_sanity_val_steps, {.at_least = 0},
                "Validation batches to run before training starts.");
}

void describe_processes(config::Describe<Trainer>& options) {
  options.field("sync_batchnorm", &Trainer::sync_batchnorm,
                "Computes batch normalization statistics over all ranks.");
  options.field("num_threads", &Trainer::num_threads,
                {.at_least = 1, .at_most = 1024, .example = "1"},
                "CPU threads per process; auto: measured at the start.");
  options.field("allocator", &Trainer::allocator,
                "Memory allocator of the worker processes: the C library's, or jemalloc or "
                "mimalloc (Debian: libjemalloc2, libmimalloc2.0).");
  options.field("hang_timeout", &Trainer::hang_timeout, {.not_empty = true, .example = "5m"},
                "Maximum time between two steps of training or validation, before the run ends "
                "with exit code 8: DD:HH:MM:SS, or 90s, 30m, 2h; auto: 60s, or ten steps if they "
                "take longer. At the start of the run, the limit is ten times as long.");
  options.field("max_restarts", &Trainer::max_restarts,
                {.at_least = 0, .at_most = 1000, .example = "3"},
                "Number of restarts from the newest checkpoint after a process failed or hung "
                "(exit codes 7 and 8).");
}

}  // namespace

void Trainer::describe(config::Describe<Trainer>& options) {
  options.field("accelerator", &Trainer::accelerator, "Device type; auto: GPU if available.");
  options.field(
      "devices", &Trainer::devices, {.at_least = 1, .at_most = 1024, .example = "2"},
      "Devices per node, one process each: a number, or a list of GPUs by number, such as [1, 3]; "
      "auto or -1: all GPUs, or one CPU process.");
  options.field("num_nodes", &Trainer::num_nodes, {.at_least = 1, .at_most = 1024, .example = "2"},
                "Number of nodes, each with 'devices' devices; same as 'run --nnodes'.");
  describe_length(options);
  describe_numbers(options);
  options.field("accumulate_grad_batches", &Trainer::accumulate_grad_batches,
                {.at_least = 1, .at_most = 1 << 20},
                "Number of batches whose gradients are accumulated for one optimizer step.");
  options.field("gradient_clip_val", &Trainer::gradient_clip_val, {.above = 0, .example = "1.0"},
                "Gradient clipping threshold; absent: no clipping.");
  options.field("gradient_clip_algorithm", &Trainer::gradient_clip_algorithm,
                "norm: clips the norm of the whole gradient; value: clips each element.");
  describe_batches(options);
  options.field(
      "val_check_interval", &Trainer::val_check_interval, {.above = 0},
      "Interval of validations within an epoch, which is validated at its end in any "
      "case: 100 is a number of optimizer steps, 0.25 a fraction of the epoch, 1.0 none.");
  options.field("check_val_every_n_epoch", &Trainer::check_val_every_n_epoch, {.at_least = 1},
                "Epochs between two epochs with validation.");
  options.field("test", &Trainer::test,
                "Evaluates dataset.test once after training, with the best weights, or the last "
                "ones if checkpoint.save_top_k is 0.");
  options.field("log_every_n_steps", &Trainer::log_every_n_steps, {.at_least = 1},
                "Steps between two lines of metrics.jsonl.");
  options.field("ema", &Trainer::ema, "Exponential moving average of the weights; absent: none.");
  options.field("swa", &Trainer::swa, "Stochastic weight averaging; absent: none.");
  options.field("test_time_augmentation", &Trainer::test_time_augmentation,
                {.example = "{horizontal_flip: true, translate: 1}"},
                "Test-time augmentation in validation, eval and predict; absent: none.");
  options.field(
      "skip_nonfinite_steps", &Trainer::skip_nonfinite_steps, {.at_least = 0},
      "Maximum number of consecutive steps skipped because a gradient is not finite, before the "
      "run stops; auto: 0, or 100 with 16-mixed, whose loss scale must adapt.");
  options.field(
      "on_divergence", &Trainer::on_divergence,
      {.example =
           "[optimizer.lr=0.0003, {optimizer: {lr: 0.0001}, trainer.gradient_clip_val: 1.0}]"},
      "Config changes for further attempts after the run diverged, one entry per attempt: an "
      "override as on the command line, a map merged into the file, or a list of these.");
  options.field(
      "log_norms", &Trainer::log_norms,
      "Logs the norms of the gradient, before clipping, and of the weights to metrics.jsonl.");
  options.field("log_layer_norms", &Trainer::log_layer_norms,
                "Logs the norm of each layer's gradient, before clipping, to metrics.jsonl.");
  options.field("deterministic", &Trainer::deterministic, "Uses only deterministic kernels.");
  options.field("detect_anomaly", &Trainer::detect_anomaly,
                "Reports the layer and operation that first produced a non-finite value; slow.");
  describe_processes(options);
}

void Experiment::describe(config::Describe<Experiment>& options) {
  options.field("name", &Experiment::name, {.not_empty = true},
                "Name of the experiment and of its folder in runs/.");
  options.field("seed", &Experiment::seed, {.at_least = 0},
                "Seed of everything random: weights, order, augmentation, dropout.");
  options.field("plugins", &Experiment::plugins, {.example = "[libmine.so]"},
                "Plug-in libraries, relative to this file or in a folder of TRAINCTL_PLUGIN_PATH.");
  options.field("dataset", &Experiment::dataset,
                {.required = true, .example = "{train: {type: mnist, root: data/mnist}}"},
                "The data.");
  options.field("loader", &Experiment::loader, "How batches are made.");
  options.stage("model", &Experiment::model, "model", {.required = true}, "The network.");
  options.field(
      "weights", &Experiment::weights, {.example = "resnet18.pth"},
      "Initial weights, as a path, a name or a section; absent: random, from the seed. A last "
      "layer for a different number of classes is reinitialized.");
  options.field("freeze", &Experiment::freeze, {.example = "[conv1, \"layer?\", \"*.bias\"]"},
                "Parameters to freeze, by name, with `*` and `?` as in a shell; a layer name "
                "freezes all parameters below it and its batch normalization statistics.");
  options.field("unfreeze_at", &Experiment::unfreeze_at,
                {.example = "[{epoch: 2, match: [layer4]}, {epoch: 4, match: [layer3]}]"},
                "Parameters of freeze that are trained from some epoch on; absent: none.");
  options.stage(
      "task", &Experiment::task, "task",
      "What a training step computes: which targets the loss compares with the model's outputs.");
  options.stage("loss", &Experiment::loss, "loss", "The loss that training minimizes.");
  options.stage("optimizer", &Experiment::optimizer, "optimizer", {.required = true},
                "The optimizer that updates the weights.");
  options.stage("scheduler", &Experiment::scheduler, "scheduler", "The learning rate schedule.");
  options.stage("early_stopping", &Experiment::early_stopping, "stopper",
                "When to stop early; absent: never.");
  options.stages("metrics", &Experiment::metrics, "metric", {.example = "[accuracy]"},
                 "Metrics to compute in addition to the loss, in training and validation.");
  options.field("trainer", &Experiment::trainer, "The training loop.");
  options.field("distributed", &Experiment::distributed, "How ranks synchronize gradients.");
  options.field("checkpoint", &Experiment::checkpoint,
                "When checkpoints are saved, and which are kept.");
  options.field("profiler", &Experiment::profiler,
                "Profiles a few training steps into profile/; absent: no profiling.");
  options.stages("loggers", &Experiment::loggers, "logger",
                 {.example = "[console, csv, jsonl, tensorboard]"},
                 "Where progress and metrics are logged.");
}

double decay_of_update(const ExponentialDecay& average, std::int64_t update) {
  if (update <= 1) return 0;
  if (!average.warmup) return average.decay;
  const auto& [gamma, power, min_decay] = *average.warmup;
  const double grown = 1 - std::pow(1 + static_cast<double>(update - 1) / gamma, -power);
  return std::max(std::min(grown, average.decay), min_decay);
}

double share_of_first(const ExponentialDecay& average, std::int64_t updates) {
  constexpr double kNegligible = 1e-6;
  if (!average.warmup) return std::pow(average.decay, static_cast<double>(updates - 1));
  double share = 1;
  for (std::int64_t update = 2; update <= updates && share > kNegligible; ++update)
    share *= decay_of_update(average, update);
  return share;
}

bool validates(const Experiment& experiment) {
  const Limit& limit = experiment.trainer.limit_val_batches;
  return experiment.dataset.val.has_value() && limit.of(1) > 0;
}

std::string metric_name(const config::Stage& metric) {
  if (metric.type == "top_k_accuracy")
    return fmt::format("top_{}_accuracy", metric.as<metric::TopKAccuracy>().k);
  return metric.type;
}

std::vector<std::string> monitored_values(const Experiment& experiment) {
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for (const char* split : {"val/", "train/"}) {
    if (split[0] == 'v' && !validates(experiment)) continue;
    names.push_back(std::string(split) + "loss");
    for (const config::Stage& metric : experiment.metrics) {
      // A confusion matrix is not a number.
      if (!metric || metric.options_type == typeid(metric::ConfusionMatrix)) continue;
      const std::string name = split + metric_name(metric);
      if (seen.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

std::string checkpoint_monitor(const Experiment& experiment) {
  if (experiment.checkpoint.monitor) return *experiment.checkpoint.monitor;
  if (const auto* patience = experiment.early_stopping.get_if<stopper::Patience>())
    return patience->monitor;
  return validates(experiment) ? "val/loss" : "train/loss";
}

Mode mode_for(const std::string& monitor) {
  constexpr std::array kErrors{"loss", "mae", "rmse", "perplexity"};
  const bool error =
      std::ranges::any_of(kErrors, [&](const char* name) { return monitor.ends_with(name); });
  return error ? Mode::min : Mode::max;
}

Mode resolve_mode(const config::Auto<Mode>& mode, const std::string& monitor) {
  return mode.value_or(mode_for(monitor));
}

std::int64_t train_batches(const Experiment& experiment, std::int64_t samples, int ranks) {
  const std::int64_t planned = planned_batches(experiment, samples, ranks);
  return experiment.trainer.fast_dev_run ? std::min<std::int64_t>(planned, 1) : planned;
}

std::int64_t rows_of_batch(std::int64_t batch_size, std::int64_t samples, int ranks) {
  const std::int64_t share = rounded_up(samples, ranks);
  return std::min(batch_size, std::max<std::int64_t>(1, share + share % 2));
}

RunLength schedule_length(const Experiment& experiment, std::optional<std::int64_t> samples,
                          int ranks) {
  const Trainer& trainer = experiment.trainer;
  const std::int64_t batches = samples ? planned_batches(experiment, *samples, ranks) : 0;
  RunLength length{.epochs = trainer.epoch_limit().value_or(0), .steps = trainer.max_steps};
  if (batches == 0) return length;
  length.steps_per_epoch = rounded_up(batches, trainer.accumulate_grad_batches);
  if (length.epochs > 0) {
    const std::int64_t steps = length.steps_per_epoch * length.epochs;
    length.steps = std::min(steps, trainer.max_steps.value_or(steps));
  }
  if (length.steps) length.epochs = rounded_up(*length.steps, length.steps_per_epoch);
  return length;
}

}  // namespace trainctl::spec
