#include "spec/experiment/experiment.hpp"

#include "spec/logger/loggers.hpp"
#include "spec/loss/cross_entropy.hpp"
#include "spec/scheduler/step.hpp"

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
  options
      .field("max_epochs", &Trainer::max_epochs,
             "Longest run, in epochs; absent: 10, or no limit where max_steps or max_time is set.")
      .at_least(1)
      .at_most(1'000'000)
      .example("20");
  options.field("max_steps", &Trainer::max_steps, "Longest run, in optimizer steps.")
      .at_least(1)
      .example("1000");
  options
      .field("max_time", &Trainer::max_time, "Longest run in time: DD:HH:MM:SS, or 90s, 30m, 2h.")
      .not_empty()
      .example("\"00:12:00:00\"");
}

void describe_numbers(config::Describe<Trainer>& options) {
  options.field("precision", &Trainer::precision,
                "Number format of the training. 32-true: float32 throughout; bf16-mixed and "
                "16-mixed: matrix products and convolutions in 16 bits, weights in float32.");
  options.field("allow_slow_precision", &Trainer::allow_slow_precision,
                "Trains in 16 bits also on a CPU that has no instructions for them.");
  options.field(
      "float32_matmul_precision", &Trainer::float32_matmul_precision,
      "Precision within float32 products, as torch.set_float32_matmul_precision; high and "
      "medium may use TF32 or bfloat16.");
  options.field(
      "channels_last", &Trainer::channels_last,
      "Lays images and convolution weights out with the channels last (NHWC); auto: on a "
      "GPU in 16 bits for models most of whose operations are convolutions, on a CPU where "
      "a short probe is at least 1.15 times as fast with it.");
  options.field(
      "activation_checkpointing", &Trainer::activation_checkpointing,
      "blocks: training keeps what enters each block of the model and computes the rest "
      "again in the backward pass: less memory, more time, the same gradients; auto: only "
      "where a step, of which a few samples tell at the start, would not fit otherwise.");
  options.field("cuda_graphs", &Trainer::cuda_graphs,
                "Records a whole training step on the GPU as one CUDA graph and repeats it; true: "
                "a run whose steps cannot be recorded is refused; auto: such a run takes them one "
                "operation at a time and says why.");
}

void describe_batches(config::Describe<Trainer>& options) {
  options
      .field("limit_train_batches", &Trainer::limit_train_batches,
             "Batches of a training epoch: 100 is a number, 0.1 a share, 1.0 all.")
      .above(0);
  options
      .field("limit_val_batches", &Trainer::limit_val_batches,
             "Batches of a validation: 100 is a number, 0.1 a share, 1.0 all; 0: no validation.")
      .at_least(0);
  options
      .field("overfit_batches", &Trainer::overfit_batches,
             "Trains on the first batches only, in order; 0: off.")
      .at_least(0);
  options.field("fast_dev_run", &Trainer::fast_dev_run,
                "One batch of training and one of validation: does it run at all?");
  options
      .field("num_sanity_val_steps", &Trainer::num_sanity_val_steps,
             "Validation batches tried before training starts.")
      .at_least(0);
}

void describe_processes(config::Describe<Trainer>& options) {
  options.field("sync_batchnorm", &Trainer::sync_batchnorm,
                "Batch normalisation takes its statistics over the rows of all ranks.");
  options
      .field("num_threads", &Trainer::num_threads,
             "CPU threads of a process; auto: measured at the start.")
      .at_least(1)
      .at_most(1024)
      .example("1");
  options.field("allocator", &Trainer::allocator,
                "Who answers malloc in the workers: the C library, or what Debian has as "
                "libjemalloc2 or libmimalloc2.0.");
  options
      .field("hang_timeout", &Trainer::hang_timeout,
             "Longest time without a step, in training and validation, before the run ends with "
             "exit code 8: DD:HH:MM:SS, or 90s, 30m, 2h; auto: 60s, or ten steps if they take "
             "longer. The start may take ten times as long.")
      .not_empty()
      .example("5m");
  options
      .field("max_restarts", &Trainer::max_restarts,
             "How often a run goes on from its newest checkpoint after a process failed or hung "
             "(exit codes 7 and 8).")
      .at_least(0)
      .at_most(1000)
      .example("3");
}

}  // namespace

void Trainer::describe(config::Describe<Trainer>& options) {
  options.field("accelerator", &Trainer::accelerator,
                "Kind of device; auto: a GPU where there is one.");
  options
      .field("devices", &Trainer::devices,
             "Number of devices, one process each; auto: all GPUs, or one CPU process. Of each "
             "node, where there are several.")
      .at_least(1)
      .at_most(1024)
      .example("2");
  options
      .field("num_nodes", &Trainer::num_nodes,
             "Number of machines, each with as many devices; 'run --nnodes' says the same.")
      .at_least(1)
      .at_most(1024)
      .example("2");
  describe_length(options);
  describe_numbers(options);
  options
      .field("accumulate_grad_batches", &Trainer::accumulate_grad_batches,
             "Batches whose gradients make one step.")
      .at_least(1)
      .at_most(1 << 20);
  options
      .field("gradient_clip_val", &Trainer::gradient_clip_val,
             "Bound of the gradient; absent: no clipping.")
      .above(0)
      .example("1.0");
  options.field("gradient_clip_algorithm", &Trainer::gradient_clip_algorithm,
                "norm: scales the whole gradient; value: cuts each element.");
  describe_batches(options);
  options
      .field("check_val_every_n_epoch", &Trainer::check_val_every_n_epoch,
             "Epochs between two validations.")
      .at_least(1);
  options
      .field("log_every_n_steps", &Trainer::log_every_n_steps,
             "Steps between two lines of metrics.jsonl.")
      .at_least(1);
  options.field("ema", &Trainer::ema, "Exponential moving average of the weights; absent: none.");
  options.field("swa", &Trainer::swa, "Stochastic weight averaging; absent: none.");
  options
      .field("skip_nonfinite_steps", &Trainer::skip_nonfinite_steps,
             "Steps in a row that are left out where a gradient is not finite, before the run "
             "stops; auto: none, or 100 in 16-mixed, whose scale has to settle.")
      .at_least(0);
  options
      .field("on_divergence", &Trainer::on_divergence,
             "What is changed when the run has diverged and starts again, one entry for each "
             "further attempt: an override as on the command line, a map of what is laid over the "
             "file, or a list of these.")
      .example("[optimizer.lr=0.0003, {optimizer: {lr: 0.0001}, trainer.gradient_clip_val: 1.0}]");
  options.field("log_norms", &Trainer::log_norms,
                "Writes the lengths of the gradient, before clipping, and of the weights to "
                "metrics.jsonl.");
  options.field("deterministic", &Trainer::deterministic,
                "Only kernels that give the same bits in every run.");
  options.field("detect_anomaly", &Trainer::detect_anomaly,
                "Names the layer and the operation that first made a value not finite; slow.");
  describe_processes(options);
}

void Ema::describe(config::Describe<Ema>& options) {
  options.field("decay", &Ema::decay, "Share of the old average that is kept.")
      .at_least(0)
      .below(1)
      .example("0.9999");
  options.field("every_n_steps", &Ema::every_n_steps, "Steps between two updates.").at_least(1);
  options.field("start_epoch", &Ema::start_epoch, "Epochs before the first update.").at_least(0);
  options.field("use_warmup", &Ema::use_warmup,
                "Starts with a small decay that grows to `decay`, as in timm: a short run is not "
                "dominated by its first weights.");
  options
      .field("warmup_gamma", &Ema::warmup_gamma,
             "The decay after n updates is 1 - (1 + n / warmup_gamma)^-warmup_power, at most "
             "`decay`.")
      .above(0);
  options
      .field("warmup_power", &Ema::warmup_power,
             "2/3 reaches 0.999 after 31,600 updates, 0.75 after 10,000.")
      .above(0)
      .at_most(10);
  options.field("min_decay", &Ema::min_decay, "Lower bound of the decay during its warm-up.")
      .at_least(0)
      .below(1);
}

void Swa::describe(config::Describe<Swa>& options) {
  options.field("start_epoch", &Swa::start_epoch, "Epochs before the first update.").at_least(0);
  options
      .field("every_n_steps", &Swa::every_n_steps, "Steps between two updates; auto: an epoch's.")
      .at_least(1)
      .example("100");
}

void Checkpoint::describe(config::Describe<Checkpoint>& options) {
  options
      .field(
          "monitor", &Checkpoint::monitor,
          "The value that decides which weights are best; absent: early stopping's, else the loss.")
      .example("val/accuracy");
  options.field("mode", &Checkpoint::mode, "min: lower is better; max: higher; auto: by the name.");
  options
      .field("save_top_k", &Checkpoint::save_top_k,
             "How many of the best are kept; 0: none; -1: all.")
      .at_least(-1)
      .at_most(10'000);
  options.field("save_last", &Checkpoint::save_last,
                "Writes the newest weights to last.safetensors too.");
  options.field("every_n_epochs", &Checkpoint::every_n_epochs, "Epochs between two saves.")
      .at_least(1);
  options
      .field("every_n_steps", &Checkpoint::every_n_steps,
             "Steps between two saves, beside those of every_n_epochs; absent: none.")
      .at_least(1)
      .example("1000");
  options
      .field("every_t", &Checkpoint::every_t,
             "Time between two saves, beside those of every_n_epochs: DD:HH:MM:SS, or 90s, 30m, "
             "2h; absent: none.")
      .not_empty()
      .example("15m");
  options.field(
      "on_best", &Checkpoint::on_best,
      "Saves after each epoch that is the best so far, too, whatever every_n_epochs says.");
  options.field("save_weights_only", &Checkpoint::save_weights_only,
                "Leaves out all but the weights: less space, and no run can go on from it.");
  options.field("async", &Checkpoint::asynchronous,
                "Copies the state in the step and writes it beside the training.");
}

void Remote::describe(config::Describe<Remote>& options) {
  options
      .field("endpoint", &Remote::endpoint,
             "Address of the S3 server; absent: Amazon's in that region.")
      .not_empty()
      .example("http://localhost:9000");
  options.field("region", &Remote::region, "Region that s3:// requests are signed for.")
      .not_empty();
  options
      .field("access_key", &Remote::access_key,
             "Key id that s3:// requests are signed with; absent: unsigned, for public buckets.")
      .example("\"${secret:AWS_ACCESS_KEY_ID}\"");
  options.field("secret_key", &Remote::secret_key, "The secret that belongs to access_key.")
      .example("\"${secret:AWS_SECRET_ACCESS_KEY}\"");
  options.field("session_token", &Remote::session_token, "The token of temporary credentials.")
      .example("\"${secret:AWS_SESSION_TOKEN}\"");
  options
      .field("retries", &Remote::retries,
             "Further tries after a server error, a broken connection or a cut-off answer, each "
             "after a longer pause.")
      .at_least(0)
      .at_most(100);
  options
      .field("timeout_s", &Remote::timeout_s,
             "Longest time of one try, in seconds; a try reads up to 8 MiB.")
      .above(0)
      .at_most(86400);
}

void Dataset::describe(config::Describe<Dataset>& options) {
  options.field("train", &Dataset::train, "The split that is trained on.")
      .required()
      .example("{type: synthetic_digits, split: train}");
  options
      .field("val", &Dataset::val,
             "The split that is validated on; absent: none, or the share that split gives it.")
      .example("{type: synthetic_digits, split: test}");
  options
      .field("test", &Dataset::test,
             "The split for a test after training; a run only checks that it can be read. Absent: "
             "none, or the share that split gives it.")
      .example("{type: synthetic_digits, split: test}");
  options.field("split", &Dataset::split,
                "Divides the data set of train into train, val and test; absent: val and test name "
                "data sets of their own.");
  options.field("cache", &Dataset::cache, "Where samples are kept between epochs.");
  options.field("remote", &Dataset::remote, "How http(s):// and s3:// paths are read.");
  options.field(
      "on_error", &Dataset::on_error,
      "A sample that cannot be read: fail: the run ends; skip: another sample takes its place.");
  options
      .field("max_skipped", &Dataset::max_skipped,
             "Most samples of a split that on_error: skip may leave out, on each rank; auto: 0.1 "
             "%, at most 100.")
      .at_least(0)
      .example("10");
}

void Profiler::describe(config::Describe<Profiler>& options) {
  options.field("wait", &Profiler::wait, "Steps before anything is done.").at_least(0);
  options.field("warmup", &Profiler::warmup, "Steps after that, in which the tracer gets ready.")
      .at_least(0);
  options.field("active", &Profiler::active, "Steps that are recorded.").at_least(1).at_most(1000);
  options.field("record_shapes", &Profiler::record_shapes, "Notes the shapes of the inputs.");
  options.field("profile_memory", &Profiler::profile_memory, "Notes what is allocated and freed.");
  options.field("with_flops", &Profiler::with_flops,
                "Counts the operations of matrix products and convolutions.");
  options.field("nvtx", &Profiler::nvtx,
                "Names the parts of every step, of the whole run, for Nsight Systems.");
}

void Experiment::describe(config::Describe<Experiment>& options) {
  options.field("name", &Experiment::name, "Name of the experiment and of its folder below runs/.")
      .not_empty();
  options
      .field("seed", &Experiment::seed,
             "Seed of everything random: weights, order, augmentation, dropout.")
      .at_least(0);
  options
      .field("plugins", &Experiment::plugins,
             "Libraries with stages of your own, relative to this file or in a folder of "
             "TRAINCTL_PLUGIN_PATH.")
      .example("[libmine.so]");
  options.field("dataset", &Experiment::dataset, "The data.")
      .required()
      .example("{train: {type: mnist, root: data/mnist}}");
  options.field("loader", &Experiment::loader, "How batches are made.");
  options.stage("model", &Experiment::model, "model", "The network.").required();
  options
      .field(
          "weights", &Experiment::weights,
          "What the training starts from; absent: weights that the seed draws. A path alone will "
          "do. A last layer for another number of classes is drawn anew.")
      .example("resnet18.pth");
  options
      .field("freeze", &Experiment::freeze,
             "Parameters that are not trained, by name: `*` and `?` as in a shell; a layer stands "
             "for all below it, and keeps the statistics of its batch norms.")
      .example("[conv1, \"layer?\", \"*.bias\"]");
  options.stage("loss", &Experiment::loss, "loss", "What training minimises.");
  options.stage("optimizer", &Experiment::optimizer, "optimizer", "How weights follow gradients.")
      .required();
  options.stage("scheduler", &Experiment::scheduler, "scheduler", "How the learning rate changes.");
  options.stage("early_stopping", &Experiment::early_stopping, "stopper",
                "When to stop early; absent: never.");
  options
      .stages("metrics", &Experiment::metrics, "metric",
              "What is measured beside the loss, on both splits.")
      .example("[accuracy]");
  options.field("trainer", &Experiment::trainer, "The training loop.");
  options.field("distributed", &Experiment::distributed, "How ranks exchange gradients.");
  options.field("checkpoint", &Experiment::checkpoint, "When state is saved, and what is kept.");
  options.field("profiler", &Experiment::profiler,
                "Records what a few steps do into profile/; absent: nothing.");
  options.stages("loggers", &Experiment::loggers, "logger", "Where the progress is written.")
      .example("[console, csv, jsonl, tensorboard]");
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
