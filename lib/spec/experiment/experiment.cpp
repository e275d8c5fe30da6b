#include "spec/experiment/experiment.hpp"

#include "spec/options/logger.hpp"
#include "spec/options/loss.hpp"
#include "spec/options/scheduler.hpp"

#include <algorithm>
#include <cmath>

namespace trainctl::spec {

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
      "Longest run, in epochs; absent: 10, or no limit where max_steps or max_time is set.");
  options.field("max_steps", &Trainer::max_steps, {.at_least = 1, .example = "1000"},
                "Longest run, in optimizer steps.");
  options.field("max_time", &Trainer::max_time, {.not_empty = true, .example = "\"00:12:00:00\""},
                "Longest run in time: DD:HH:MM:SS, or 90s, 30m, 2h.");
}

void describe_numbers(config::Describe<Trainer>& options) {
  options.field("precision", &Trainer::precision,
                "Number format of the training. 32-true: float32 throughout; bf16-mixed and "
                "16-mixed: matrix products and convolutions in 16 bits, weights in float32.");
  options.field("allow_slow_precision", &Trainer::allow_slow_precision,
                "Trains in 16 bits also on a CPU that has no instructions for them.");
  options.field("float32_matmul_precision", &Trainer::float32_matmul_precision,
                "Precision within float32 products, as torch.set_float32_matmul_precision; high "
                "and medium may use TF32 or bfloat16.");
  options.field("channels_last", &Trainer::channels_last,
                "Lays images and convolution weights out with the channels last (NHWC); auto: on a "
                "GPU in 16 bits for models most of whose operations are convolutions, on a CPU "
                "where a short probe is at least 1.15 times as fast with it.");
  options.field(
      "activation_checkpointing", &Trainer::activation_checkpointing,
      "blocks: training keeps what enters each block of the model and computes the rest again in "
      "the backward pass: less memory, more time, the same gradients; auto: only where a step, of "
      "which a few samples tell at the start, would not fit otherwise.");
  options.field("cuda_graphs", &Trainer::cuda_graphs,
                "Records a whole training step on the GPU as one CUDA graph and repeats it; true: "
                "a run whose steps cannot be recorded is refused; auto: such a run takes them one "
                "operation at a time and says why.");
}

void describe_batches(config::Describe<Trainer>& options) {
  options.field("limit_train_batches", &Trainer::limit_train_batches, {.above = 0},
                "Batches of a training epoch: 100 is a number, 0.1 a share, 1.0 all.");
  options.field(
      "limit_val_batches", &Trainer::limit_val_batches, {.at_least = 0},
      "Batches of a validation: 100 is a number, 0.1 a share, 1.0 all; 0: no validation.");
  options.field("overfit_batches", &Trainer::overfit_batches, {.at_least = 0},
                "Trains on the first batches only, in order; 0: off.");
  options.field("fast_dev_run", &Trainer::fast_dev_run,
                "One batch of training and one of validation: does it run at all?");
  options.field("num_sanity_val_steps", &Trainer::num_sanity_val_steps, {.at_least = 0},
                "Validation batches tried before training starts.");
}

void describe_processes(config::Describe<Trainer>& options) {
  options.field("sync_batchnorm", &Trainer::sync_batchnorm,
                "Batch normalization takes its statistics over the rows of all ranks.");
  options.field("num_threads", &Trainer::num_threads,
                {.at_least = 1, .at_most = 1024, .example = "1"},
                "CPU threads of a process; auto: measured at the start.");
  options.field("allocator", &Trainer::allocator,
                "Who answers malloc in the workers: the C library, or what Debian has as "
                "libjemalloc2 or libmimalloc2.0.");
  options.field("hang_timeout", &Trainer::hang_timeout, {.not_empty = true, .example = "5m"},
                "Longest time without a step, in training and validation, before the run ends with "
                "exit code 8: DD:HH:MM:SS, or 90s, 30m, 2h; auto: 60s, or ten steps if they take "
                "longer. The start may take ten times as long.");
  options.field("max_restarts", &Trainer::max_restarts,
                {.at_least = 0, .at_most = 1000, .example = "3"},
                "How often a run goes on from its newest checkpoint after a process failed or hung "
                "(exit codes 7 and 8).");
}

}  // namespace

void Trainer::describe(config::Describe<Trainer>& options) {
  options.field("accelerator", &Trainer::accelerator,
                "Kind of device; auto: a GPU where there is one.");
  options.field("devices", &Trainer::devices, {.at_least = 1, .at_most = 1024, .example = "2"},
                "Number of devices, one process each; auto: all GPUs, or one CPU process. Of each "
                "node, where there are several.");
  options.field("num_nodes", &Trainer::num_nodes, {.at_least = 1, .at_most = 1024, .example = "2"},
                "Number of machines, each with as many devices; 'run --nnodes' says the same.");
  describe_length(options);
  describe_numbers(options);
  options.field("accumulate_grad_batches", &Trainer::accumulate_grad_batches,
                {.at_least = 1, .at_most = 1 << 20}, "Batches whose gradients make one step.");
  options.field("gradient_clip_val", &Trainer::gradient_clip_val, {.above = 0, .example = "1.0"},
                "Bound of the gradient; absent: no clipping.");
  options.field("gradient_clip_algorithm", &Trainer::gradient_clip_algorithm,
                "norm: scales the whole gradient; value: cuts each element.");
  describe_batches(options);
  options.field("check_val_every_n_epoch", &Trainer::check_val_every_n_epoch, {.at_least = 1},
                "Epochs between two validations.");
  options.field("log_every_n_steps", &Trainer::log_every_n_steps, {.at_least = 1},
                "Steps between two lines of metrics.jsonl.");
  options.field("ema", &Trainer::ema, "Exponential moving average of the weights; absent: none.");
  options.field("swa", &Trainer::swa, "Stochastic weight averaging; absent: none.");
  options.field("skip_nonfinite_steps", &Trainer::skip_nonfinite_steps, {.at_least = 0},
                "Steps in a row that are left out where a gradient is not finite, before the run "
                "stops; auto: none, or 100 in 16-mixed, whose scale has to settle.");
  options.field(
      "on_divergence", &Trainer::on_divergence,
      {.example =
           "[optimizer.lr=0.0003, {optimizer: {lr: 0.0001}, trainer.gradient_clip_val: 1.0}]"},
      "What is changed when the run has diverged and starts again, one entry for each further "
      "attempt: an override as on the command line, a map of what is laid over the file, or a list "
      "of these.");
  options.field(
      "log_norms", &Trainer::log_norms,
      "Writes the lengths of the gradient, before clipping, and of the weights to metrics.jsonl.");
  options.field("deterministic", &Trainer::deterministic,
                "Only kernels that give the same bits in every run.");
  options.field("detect_anomaly", &Trainer::detect_anomaly,
                "Names the layer and the operation that first made a value not finite; slow.");
  describe_processes(options);
}

void Experiment::describe(config::Describe<Experiment>& options) {
  options.field("name", &Experiment::name, {.not_empty = true},
                "Name of the experiment and of its folder below runs/.");
  options.field("seed", &Experiment::seed, {.at_least = 0},
                "Seed of everything random: weights, order, augmentation, dropout.");
  options.field("plugins", &Experiment::plugins, {.example = "[libmine.so]"},
                "Libraries with stages of your own, relative to this file or in a folder of "
                "TRAINCTL_PLUGIN_PATH.");
  options.field("dataset", &Experiment::dataset,
                {.required = true, .example = "{train: {type: mnist, root: data/mnist}}"},
                "The data.");
  options.field("loader", &Experiment::loader, "How batches are made.");
  options.stage("model", &Experiment::model, "model", {.required = true}, "The network.");
  options.field("weights", &Experiment::weights, {.example = "resnet18.pth"},
                "What the training starts from; absent: weights that the seed draws. A path alone "
                "will do. A last layer for another number of classes is drawn anew.");
  options.field("freeze", &Experiment::freeze, {.example = "[conv1, \"layer?\", \"*.bias\"]"},
                "Parameters that are not trained, by name: `*` and `?` as in a shell; a layer "
                "stands for all below it, and keeps the statistics of its batch norms.");
  options.stage("loss", &Experiment::loss, "loss", "What training minimizes.");
  options.stage("optimizer", &Experiment::optimizer, "optimizer", {.required = true},
                "How weights follow gradients.");
  options.stage("scheduler", &Experiment::scheduler, "scheduler", "How the learning rate changes.");
  options.stage("early_stopping", &Experiment::early_stopping, "stopper",
                "When to stop early; absent: never.");
  options.stages("metrics", &Experiment::metrics, "metric", {.example = "[accuracy]"},
                 "What is measured beside the loss, on both splits.");
  options.field("trainer", &Experiment::trainer, "The training loop.");
  options.field("distributed", &Experiment::distributed, "How ranks exchange gradients.");
  options.field("checkpoint", &Experiment::checkpoint, "When state is saved, and what is kept.");
  options.field("profiler", &Experiment::profiler,
                "Records what a few steps do into profile/; absent: nothing.");
  options.stages("loggers", &Experiment::loggers, "logger",
                 {.example = "[console, csv, jsonl, tensorboard]"},
                 "Where the progress is written.");
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

}  // namespace trainctl::spec
