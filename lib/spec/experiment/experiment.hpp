#pragma once

#include "base/machine/machine.hpp"
#include "config/schema/describe.hpp"
#include "config/secret.hpp"
#include "spec/experiment/distributed.hpp"
#include "spec/experiment/enums.hpp"
#include "spec/experiment/split.hpp"
#include "spec/experiment/value_types.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::spec {

/// A warm-up of the decay of an exponential moving average, like timm's
/// ModelEmaV3(use_warmup=True): after n updates the decay is 1 - (1 + n / gamma)^-power, between
/// min_decay and the full decay.
struct DecayWarmup {
  double gamma = 1;
  double power = 2.0 / 3;
  double min_decay = 0;
};

/// An exponential moving average: its decay, and optionally a warm-up of the decay.
struct ExponentialDecay {
  double decay = 0.999;
  std::optional<DecayWarmup> warmup = {};
};

/// Returns the decay of update number `update`, counted from 1. The first update copies the
/// weights.
double decay_of_update(const ExponentialDecay& average, std::int64_t update);

/// Returns the share of the first update's weights in the average after `updates` updates. The
/// result is not exact below 1e-6.
double share_of_first(const ExponentialDecay& average, std::int64_t updates);

// The typed experiment file; each section is described once. Defaults are those of PyTorch or
// Lightning.

/// One split: a data set and the transforms of its samples. In YAML the keys of the data set are
/// next to `transforms`: {type: mnist, root: data/mnist, transforms: [...]}.
struct DataSplit {
  static constexpr auto kSummary = "A data set and the transforms of its samples.";

  config::Stage dataset;
  std::vector<config::Stage> transforms;
  std::optional<PartOfSet> part = {};  // set by dataset.split; nullopt: the whole data set

  static void describe(auto& options) {
    options.inline_stage(&DataSplit::dataset, "dataset");
    options.stages("transforms", &DataSplit::transforms, "transform",
                   {.example = "[{type: normalize, mean: [0.1307], std: [0.3081]}]"},
                   "Transforms applied to each sample, in order.");
  }
};

/// The training split, whose batches may be mixed.
struct TrainSplit : DataSplit {
  static constexpr auto kSummary =
      "The data set that is trained on, and the transforms of its samples and batches.";

  std::vector<config::Stage> batch_transforms;

  static void describe(auto& options) {
    DataSplit::describe(options);
    options.stages("batch_transforms", &TrainSplit::batch_transforms, "batch_transform",
                   {.example = "[{type: mixup, alpha: 0.2}, cutmix]"},
                   "Transforms applied to batches: one of these, drawn at random for each batch.");
  }
};

enum class CacheMode { none, encoded, decoded, device, automatic };
constexpr std::array<const char*, 5> enum_names(CacheMode) {
  return {"none", "encoded", "decoded", "device", "auto"};
}

struct Cache {
  static constexpr auto kSummary = "Where samples are kept between epochs.";
  CacheMode mode = CacheMode::automatic;
  Budget budget;
  std::optional<std::filesystem::path> local;

  /// `budget` limits either memory or disk space; the other limit has its default.
  [[nodiscard]] Budget of_memory() const { return local ? Budget{} : budget; }
  [[nodiscard]] Budget of_disk() const { return local ? budget : Budget{}; }

  static void describe(auto& options) {
    options.field(
        "mode", &Cache::mode,
        "encoded: undecoded files, in memory; decoded: pixels, after the transforms that are not "
        "random; device: the same pixels in the memory of each GPU, which assembles the batches; "
        "auto: the first of device, decoded and encoded that fits.");
    options.field("budget", &Cache::budget, {.example = "8GiB"},
                  "Maximum memory of all splits and ranks together: a percentage of the available "
                  "memory, or a size. If 'local' is set: maximum disk space of that folder; memory "
                  "is then limited to 50% of the available memory.");
    options.field("local", &Cache::local, {.example = "data/cache"},
                  "Local folder for copies of http(s)://, s3:// and file:// files: one rank "
                  "downloads each file once, ahead of use; copies used least recently are removed "
                  "first. If remote files change, remove the folder. Absent: trainctl/remote in "
                  "$XDG_CACHE_HOME or ~/.cache, up to half of its disk.");
  }
};

/// The storage of http(s):// and s3:// paths in all splits.
struct Remote {
  static constexpr auto kSummary = "How http(s):// and s3:// paths are read.";

  std::optional<std::string> endpoint;
  std::string region = "us-east-1";
  std::optional<config::Secret> access_key;
  std::optional<config::Secret> secret_key;
  std::optional<config::Secret> session_token;
  int retries = 6;
  double timeout_s = 60;

  static void describe(auto& options) {
    options.field("endpoint", &Remote::endpoint,
                  {.not_empty = true, .example = "http://localhost:9000"},
                  "Address of the S3 server; absent: Amazon's in that region.");
    options.field("region", &Remote::region, {.not_empty = true},
                  "Region that s3:// requests are signed for.");
    options.field(
        "access_key", &Remote::access_key, {.example = "\"${secret:AWS_ACCESS_KEY_ID}\""},
        "Key id that s3:// requests are signed with; absent: unsigned, for public buckets.");
    options.field("secret_key", &Remote::secret_key,
                  {.example = "\"${secret:AWS_SECRET_ACCESS_KEY}\""},
                  "The secret that belongs to access_key.");
    options.field("session_token", &Remote::session_token,
                  {.example = "\"${secret:AWS_SESSION_TOKEN}\""},
                  "The token of temporary credentials.");
    options.field("retries", &Remote::retries, {.at_least = 0, .at_most = 100},
                  "Retries after a server error, a lost connection or a truncated response, with "
                  "increasing delays.");
    options.field("timeout_s", &Remote::timeout_s, {.above = 0, .at_most = 86400},
                  "Timeout of one request, in seconds; a request reads up to 8 MiB.");
  }
};

struct Loader {
  static constexpr auto kSummary =
      "How batches are made. Workers, prefetching and read-ahead do not change the batches.";

  BatchSize batch_size;
  config::Auto<int> num_workers;
  config::Auto<int> prefetch_factor;
  config::Auto<int> read_ahead;
  config::Auto<bool> pin_memory;
  bool shuffle = true;
  config::Stage sampler;  // empty: every sample once
  bool drop_last = false;

  static void describe(auto& options) {
    options.field("batch_size", &Loader::batch_size,
                  {.at_least = 1, .at_most = 1 << 24, .example = "128"},
                  "Samples per batch on each device; auto: the largest number that fits in memory "
                  "and still increases throughput, found by trials before the run.");
    options.field(
        "num_workers", &Loader::num_workers, {.at_least = 0, .at_most = 256, .example = "4"},
        "DataLoader worker threads; 0: the training thread loads; auto: measured at the start.");
    options.field("prefetch_factor", &Loader::prefetch_factor,
                  {.at_least = 1, .at_most = 64, .example = "2"},
                  "Batches prepared ahead per worker; auto: 2, more if batch times vary.");
    options.field("read_ahead", &Loader::read_ahead,
                  {.at_least = 0, .at_most = 4096, .example = "8"},
                  "Number of batches whose files are read ahead, in disk order; 0: none; auto: "
                  "only while the data is not in the page cache.");
    options.field("pin_memory", &Loader::pin_memory,
                  "Uses page-locked memory for copies to a GPU; auto: true.");
    options.field("shuffle", &Loader::shuffle, "Shuffles the training samples in every epoch.");
    options.stage("sampler", &Loader::sampler, "sampler",
                  "How training samples are drawn; absent: every sample once an epoch.");
    options.field("drop_last", &Loader::drop_last, "Drops the last batch if it is incomplete.");
  }
};

enum class Accelerator { automatic, cpu, gpu };
constexpr std::array<const char*, 3> enum_names(Accelerator) { return {"auto", "cpu", "gpu"}; }

enum class Precision { full, bf16_mixed, fp16_mixed };
constexpr std::array<const char*, 3> enum_names(Precision) {
  return {"32-true", "bf16-mixed", "16-mixed"};
}

enum class MatmulPrecision { highest, high, medium };
constexpr std::array<const char*, 3> enum_names(MatmulPrecision) {
  return {"highest", "high", "medium"};
}

enum class ActivationCheckpointing { automatic, blocks, off };
constexpr std::array<const char*, 3> enum_names(ActivationCheckpointing) {
  return {"auto", "blocks", "off"};
}

/// Follows torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn and use_buffers=True. The
/// warm-up of the decay follows timm's ModelEmaV3, with its names.
struct Ema {
  static constexpr auto kSummary =
      "Exponential moving average of the weights, validated and saved instead of the weights.";

  double decay = 0.999;
  std::int64_t every_n_steps = 1;
  std::int64_t start_epoch = 0;
  bool use_warmup = false;
  double warmup_gamma = DecayWarmup{}.gamma;
  double warmup_power = DecayWarmup{}.power;
  double min_decay = DecayWarmup{}.min_decay;

  /// Returns the decay with its warm-up, if use_warmup is set.
  [[nodiscard]] ExponentialDecay exponential_decay() const {
    if (!use_warmup) return {decay};
    return {decay, DecayWarmup{warmup_gamma, warmup_power, min_decay}};
  }

  static void describe(auto& options) {
    options.field("decay", &Ema::decay, {.at_least = 0, .below = 1, .example = "0.9999"},
                  "Decay of the moving average.");
    options.field("every_n_steps", &Ema::every_n_steps, {.at_least = 1},
                  "Steps between two updates.");
    options.field("start_epoch", &Ema::start_epoch, {.at_least = 0},
                  "Epochs before the first update.");
    options.field("use_warmup", &Ema::use_warmup,
                  "Starts with a small decay that grows to `decay`, as in timm: a short run is not "
                  "dominated by its first weights.");
    options.field(
        "warmup_gamma", &Ema::warmup_gamma, {.above = 0},
        "The decay after n updates is 1 - (1 + n / warmup_gamma)^-warmup_power, at most `decay`.");
    options.field("warmup_power", &Ema::warmup_power, {.above = 0, .at_most = 10},
                  "Exponent in the formula of warmup_gamma: with 2/3, the decay reaches 0.999 "
                  "after 31,600 updates, with 0.75 after 10,000.");
    options.field("min_decay", &Ema::min_decay, {.at_least = 0, .below = 1},
                  "Lower bound of the decay during its warm-up.");
  }
};

/// The weights of the views are those of airbench (Jordan 2024).
struct TestTimeAugmentation {
  static constexpr auto kSummary =
      "Evaluates several views of each image, and averages the outputs of the model.";

  bool horizontal_flip = true;
  std::int64_t translate = 0;

  static void describe(auto& options) {
    options.field("horizontal_flip", &TestTimeAugmentation::horizontal_flip,
                  "Averages over each view and its mirror image.");
    options.field(
        "translate", &TestTimeAugmentation::translate, {.at_least = 0, .at_most = 4096},
        "Pixels by which two more views are moved, up and left, and down and right; the "
        "border is reflected, and each has half the weight of the image itself. 0: none.");
  }
};

/// Follows torch.optim.swa_utils.AveragedModel with use_buffers=True.
struct Swa {
  static constexpr auto kSummary =
      "Stochastic weight averaging (Izmailov et al. 2018): the mean of the weights of many steps, "
      "which is validated and saved instead of the last weights.";

  std::int64_t start_epoch = 0;
  config::Auto<std::int64_t> every_n_steps;

  static void describe(auto& options) {
    options.field("start_epoch", &Swa::start_epoch, {.at_least = 0},
                  "Epochs before the first update.");
    options.field("every_n_steps", &Swa::every_n_steps, {.at_least = 1, .example = "100"},
                  "Steps between two updates; auto: one epoch.");
  }
};

enum class ClipAlgorithm { norm, value };
constexpr std::array<const char*, 2> enum_names(ClipAlgorithm) { return {"norm", "value"}; }

enum class Allocator { system, jemalloc, mimalloc };
constexpr std::array<const char*, 3> enum_names(Allocator) {
  return {"system", "jemalloc", "mimalloc"};
}

struct Trainer {
  static constexpr auto kSummary = "The training loop, with the names of Lightning's Trainer.";

  Accelerator accelerator = Accelerator::automatic;
  Devices devices;  // per node
  int num_nodes = 1;
  std::optional<std::int64_t> max_epochs;
  std::optional<std::int64_t> max_steps;
  std::optional<std::string> max_time;
  Precision precision = Precision::full;
  bool allow_slow_precision = false;
  MatmulPrecision float32_matmul_precision = MatmulPrecision::highest;
  config::Auto<bool> channels_last;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::off;
  config::Auto<bool> benchmark;
  config::Auto<bool> cuda_graphs;
  std::int64_t accumulate_grad_batches = 1;
  std::optional<double> gradient_clip_val;
  ClipAlgorithm gradient_clip_algorithm = ClipAlgorithm::norm;
  Limit limit_train_batches;
  Limit limit_val_batches;
  std::int64_t overfit_batches = 0;
  bool fast_dev_run = false;
  std::int64_t num_sanity_val_steps = 0;
  Limit val_check_interval;  // its number counts optimizer steps
  std::int64_t check_val_every_n_epoch = 1;
  bool test = false;
  std::int64_t log_every_n_steps = 50;
  std::optional<Ema> ema;
  std::optional<Swa> swa;
  std::optional<TestTimeAugmentation> test_time_augmentation;
  config::Auto<std::int64_t> skip_nonfinite_steps;
  std::vector<Fallback> on_divergence;  // one for each further attempt
  bool log_norms = false;
  bool log_layer_norms = false;
  bool deterministic = false;
  bool detect_anomaly = false;
  bool sync_batchnorm = false;
  config::Auto<int> num_threads;
  Allocator allocator = Allocator::system;
  config::Auto<std::string> hang_timeout;  // a duration
  int max_restarts = 0;

  /// Returns max_epochs. If it is not set, returns 10, or nullopt if max_steps or max_time ends the
  /// run, like Lightning.
  [[nodiscard]] std::optional<std::int64_t> epoch_limit() const {
    return max_epochs || max_steps || max_time ? max_epochs : kDefaultEpochs;
  }

  static constexpr std::int64_t kDefaultEpochs = 10;
  static void describe(config::Describe<Trainer>& options);  // defined in experiment.cpp
};

struct Checkpoint {
  static constexpr auto kSummary = "When checkpoints are saved, and which are kept.";

  std::optional<std::string> monitor;
  config::Auto<Mode> mode;
  int save_top_k = 1;
  bool save_last = true;
  std::int64_t every_n_epochs = 1;
  std::optional<std::int64_t> every_n_steps;
  std::optional<std::string> every_t;  // a duration
  bool on_best = false;
  bool save_weights_only = false;
  bool asynchronous = true;

  static void describe(auto& options) {
    options.field("monitor", &Checkpoint::monitor, {.example = "val/accuracy"},
                  "Value that selects the best weights; absent: the value that early_stopping "
                  "monitors, or the loss without early_stopping.");
    options.field("mode", &Checkpoint::mode,
                  "min: lower is better; max: higher is better; auto: min for loss, mae, rmse and "
                  "perplexity, max for all other values.");
    options.field("save_top_k", &Checkpoint::save_top_k, {.at_least = -1, .at_most = 10'000},
                  "Number of best checkpoints to keep; 0: none; -1: all.");
    options.field("save_last", &Checkpoint::save_last,
                  "Also writes the newest weights to last.safetensors.");
    options.field("every_n_epochs", &Checkpoint::every_n_epochs, {.at_least = 1},
                  "Epochs between two saves.");
    options.field("every_n_steps", &Checkpoint::every_n_steps, {.at_least = 1, .example = "1000"},
                  "Steps between two saves, in addition to every_n_epochs; absent: none.");
    options.field("every_t", &Checkpoint::every_t, {.not_empty = true, .example = "15m"},
                  "Time between two saves, in addition to every_n_epochs: DD:HH:MM:SS, or 90s, "
                  "30m, 2h; absent: none.");
    options.field(
        "on_best", &Checkpoint::on_best,
        "Also saves after each epoch that is the best so far, regardless of every_n_epochs.");
    options.field("save_weights_only", &Checkpoint::save_weights_only,
                  "Saves only the weights: smaller checkpoints, but no run can resume from them.");
    options.field("async", &Checkpoint::asynchronous,
                  "Saves asynchronously: copies the state within the step and writes it in a "
                  "background thread.");
  }
};

struct Dataset {
  static constexpr auto kSummary =
      "The data: a split for training, and splits for validation and test.";

  TrainSplit train;
  std::optional<DataSplit> val;
  std::optional<DataSplit> test;
  std::optional<SplitOptions> split;
  Cache cache;
  Remote remote;
  OnError on_error = OnError::fail;
  config::Auto<std::int64_t> max_skipped;

  static void describe(auto& options) {
    options.field("train", &Dataset::train,
                  {.required = true, .example = "{type: synthetic_digits, split: train}"},
                  "The training split.");
    options.field("val", &Dataset::val, {.example = "{type: synthetic_digits, split: test}"},
                  "The validation split; absent: none, or the fraction set in split.");
    options.field("test", &Dataset::test, {.example = "{type: synthetic_digits, split: test}"},
                  "The test split, for trainer.test and eval; other runs only check that it can be "
                  "read. Absent: none, or the fraction set in split.");
    options.field("split", &Dataset::split,
                  "Divides the data set of train into train, val and test; absent: val and test "
                  "name separate data sets.");
    options.field("cache", &Dataset::cache, "Where samples are kept between epochs.");
    options.field("remote", &Dataset::remote, "How http(s):// and s3:// paths are read.");
    options.field("on_error", &Dataset::on_error,
                  "Handling of a sample that cannot be read. fail: the run ends; skip: another "
                  "sample replaces it.");
    options.field("max_skipped", &Dataset::max_skipped, {.at_least = 0, .example = "10"},
                  "Maximum number of samples that on_error: skip may skip per split and rank; "
                  "auto: 0.1 % of the samples, but at most 100.");
  }
};

/// auto, cross_entropy and constant, with their defaults.
config::Stage default_task();
config::Stage default_loss();
config::Stage default_scheduler();
/// console, csv, jsonl and html.
std::vector<config::Stage> default_loggers();

/// Records a few steps of training, like torch.profiler with its schedule.
struct Profiler {
  static constexpr auto kSummary = "Profiles a few training steps, as torch.profiler.";

  std::int64_t wait = 10;
  std::int64_t warmup = 2;
  std::int64_t active = 5;
  bool record_shapes = true;
  bool profile_memory = true;
  bool with_flops = true;
  bool cuda_graphs = false;
  bool nvtx = false;

  static void describe(auto& options) {
    options.field("wait", &Profiler::wait, {.at_least = 0}, "Steps before profiling starts.");
    options.field("warmup", &Profiler::warmup, {.at_least = 0},
                  "Steps to warm up the tracer, after 'wait' and before recording.");
    options.field("active", &Profiler::active, {.at_least = 1, .at_most = 1000},
                  "Number of steps to record.");
    options.field("record_shapes", &Profiler::record_shapes,
                  "Records the shapes of operator inputs.");
    options.field("profile_memory", &Profiler::profile_memory,
                  "Records memory allocations and frees.");
    options.field("with_flops", &Profiler::with_flops,
                  "Estimates the FLOPs of matrix products and convolutions.");
    options.field(
        "cuda_graphs", &Profiler::cuda_graphs,
        "Profiles steps as trainer.cuda_graphs runs them: replayed steps have kernels, but "
        "neither operators nor layers. false: CUDA graphs begin after the profile.");
    options.field(
        "nvtx", &Profiler::nvtx,
        "Emits NVTX ranges for the phases of every step in the whole run, for Nsight Systems.");
  }
};

/// The whole file. It holds plain values that may be copied between threads.
struct Experiment {
  static constexpr auto kSummary = "A trainctl experiment.";

  std::string name = "experiment";
  std::uint64_t seed = 0;
  std::vector<std::filesystem::path> plugins;
  Dataset dataset;
  Loader loader;
  config::Stage model;
  std::optional<Weights> weights;
  std::vector<std::string> freeze;
  std::vector<Unfreeze> unfreeze_at;
  config::Stage task = default_task();
  config::Stage loss = default_loss();
  config::Stage optimizer;
  config::Stage scheduler = default_scheduler();
  config::Stage early_stopping;  // empty: none
  std::vector<config::Stage> metrics;
  Trainer trainer;
  Distributed distributed;
  Checkpoint checkpoint;
  std::optional<Profiler> profiler;
  std::vector<config::Stage> loggers = default_loggers();

  static void describe(config::Describe<Experiment>& options);  // defined in experiment.cpp
};

/// Returns whether validation runs: there is a validation split, and its limit is not 0 batches.
bool validates(const Experiment& experiment);

/// Returns the name of a metric in tables and monitors: "accuracy", "top_5_accuracy".
std::string metric_name(const config::Stage& metric);

/// Returns every value that a monitor may name: train/loss, train/<metric>, and val/... if
/// validation runs.
std::vector<std::string> monitored_values(const Experiment& experiment);

/// Returns the value that selects the best weights: the checkpoint's monitor, else that of early
/// stopping, else the loss.
std::string checkpoint_monitor(const Experiment& experiment);

/// Returns min for losses and max for accuracies.
Mode mode_for(const std::string& monitor);
/// Returns the configured mode; auto depends on the monitor's name.
Mode resolve_mode(const config::Auto<Mode>& mode, const std::string& monitor);

/// The devices and ranks of a run, as far as the machine's device files show them without libtorch.
struct Placement {
  bool on_gpus = false;
  int ranks = 1;       // over all nodes
  int ranks_here = 1;  // on one node
};

/// Returns the placement that `trainer` requests on this machine.
inline Placement placement_of(const Trainer& trainer, const Machine& machine) {
  const int gpus = static_cast<int>(machine.gpus.size());
  const bool on_gpus = trainer.accelerator == Accelerator::gpu ||
                       (trainer.accelerator == Accelerator::automatic && gpus > 0);
  const int here = trainer.devices.value_or(on_gpus && gpus > 0 ? gpus : 1);
  return {on_gpus, here * trainer.num_nodes, here};
}

/// The maximum length of a run. `steps` counts optimizer steps; nullopt if unknown.
struct RunLength {
  std::int64_t epochs = 0;  // 0: unknown, if only max_time limits the run
  std::optional<std::int64_t> steps;
  std::int64_t steps_per_epoch = 0;  // 0: unknown

  [[nodiscard]] std::optional<std::int64_t> known_epochs() const {
    return epochs > 0 ? std::optional(epochs) : std::nullopt;
  }
};

/// Returns the number of batches in a training epoch, which is the same on every rank. Follows
/// data::BatchPlan.
std::int64_t train_batches(const Experiment& experiment, std::int64_t samples, int ranks);

/// Returns the number of rows that a rank must have room for: the batch size, or fewer if all
/// samples fit in one short batch. Rounded up to an even number, because mixed batches are halved.
std::int64_t rows_of_batch(std::int64_t batch_size, std::int64_t samples, int ranks);

/// Returns the length of the run for its schedule: the shorter of max_epochs and max_steps, after
/// limits, overfit_batches and accumulation. fast_dev_run does not shorten it: its one step is the
/// first of the same schedule. Without `samples` only max_steps limits the steps.
RunLength schedule_length(const Experiment& experiment, std::optional<std::int64_t> samples,
                          int ranks);

/// Returns the number of steps, or validation batches, after which ranks on GPUs exchange stop
/// requests: at log points, but at least every 10 steps so that a signal takes effect soon. They
/// act on a request at the exchange after the one that reports it.
constexpr std::int64_t agreement_every(std::int64_t log_every_n_steps) {
  return std::min<std::int64_t>(log_every_n_steps, 10);
}

}  // namespace trainctl::spec
