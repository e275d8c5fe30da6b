#pragma once

#include "config/schema/describe.hpp"
#include "config/secret.hpp"
#include "spec/experiment/distributed.hpp"
#include "spec/experiment/enums.hpp"
#include "spec/experiment/fallback.hpp"
#include "spec/experiment/split.hpp"
#include "spec/experiment/value_types.hpp"
#include "spec/experiment/weights.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::spec {

/// The decay of an exponential average that grows with the number of updates, as in timm's
/// ModelEmaV3(use_warmup=True): 1 - (1 + n / gamma)^-power, between min_decay and the full decay.
struct DecayWarmup {
  double gamma = 1;
  double power = 2.0 / 3;
  double min_decay = 0;
};

/// An exponential average: its decay, and how the decay warms up; absent: it does not.
struct ExponentialDecay {
  double decay = 0.999;
  std::optional<DecayWarmup> warmup = {};
};

/// The share of the old average that update number `update` keeps, counted from 1: the first one
/// takes the weights as they are.
double decay_of_update(const ExponentialDecay& average, std::int64_t update);

/// The share that the weights of the first update have in the average after `updates` of them.
/// Shares below 1e-6 are not told apart.
double share_of_first(const ExponentialDecay& average, std::int64_t updates);

// The typed experiment file: every section of it, described once. Defaults are PyTorch's or
// Lightning's.

/// One split: a data set and the transforms of its samples.
/// In YAML the keys of the data set stand beside `transforms`: {type: mnist, root: data/mnist,
/// transforms: [...]}.
struct DataSplit {
  static constexpr auto kSummary = "A data set and the transforms of its samples.";

  config::Stage dataset;
  std::vector<config::Stage> transforms;
  std::optional<PartOfSet> part = {};  // by dataset.split; absent: the whole data set

  static void describe(config::Describe<DataSplit>& options) {
    options.inline_stage(&DataSplit::dataset, "dataset");
    options
        .stages("transforms", &DataSplit::transforms, "transform",
                "What is done to each sample, in this order.")
        .example("[{type: normalize, mean: [0.1307], std: [0.3081]}]");
  }
};

/// The split that is trained on: its batches may be mixed.
struct TrainSplit : DataSplit {
  static constexpr auto kSummary =
      "The data set that is trained on, and the transforms of its samples and batches.";

  std::vector<config::Stage> batch_transforms;

  static void describe(config::Describe<TrainSplit>& options) {
    options.include<DataSplit>();
    options
        .stages("batch_transforms", &TrainSplit::batch_transforms, "batch_transform",
                "What is done to each batch: one of these, drawn for each with the same chance.")
        .example("[{type: mixup, alpha: 0.2}, cutmix]");
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

  /// Of the two things that `budget` may bound, each has its default where the other is meant.
  [[nodiscard]] Budget of_memory() const { return local ? Budget{} : budget; }
  [[nodiscard]] Budget of_disk() const { return local ? budget : Budget{}; }

  static void describe(config::Describe<Cache>& options) {
    options.field("mode", &Cache::mode,
                  "encoded: files as they are, in memory; decoded: pixels, as far as no transform "
                  "is random; device: the "
                  "same in the memory of each GPU, which makes the batches itself; auto: the "
                  "highest of them that fits.");
    options
        .field("budget", &Cache::budget,
               "Most memory of all splits and ranks together: a share of what is available, or a "
               "size. With 'local', the most disk space of that folder instead; memory is then "
               "bounded by 50%.")
        .example("8GiB");
    options
        .field(
            "local", &Cache::local,
            "Folder on a local disk for what http(s)://, s3:// and file:// paths name: read from "
            "there once, ahead of use, by one of the ranks, and kept; what was used longest ago "
            "goes first. It is trusted as it is: remove the folder where remote files changed. "
            "Absent: trainctl/remote in $XDG_CACHE_HOME or ~/.cache, up to half of its disk.")
        .example("data/cache");
  }
};

/// The storage behind http(s):// and s3:// paths of all splits.
struct Remote {
  static constexpr auto kSummary = "How http(s):// and s3:// paths are read.";

  std::optional<std::string> endpoint;
  std::string region = "us-east-1";
  std::optional<config::Secret> access_key;
  std::optional<config::Secret> secret_key;
  std::optional<config::Secret> session_token;
  int retries = 6;
  double timeout_s = 60;

  static void describe(config::Describe<Remote>& options);  // experiment.cpp
};

struct Loader {
  static constexpr auto kSummary =
      "How batches are made; the batches themselves depend on the seed alone.";

  BatchSize batch_size;
  config::Auto<int> num_workers;
  config::Auto<int> prefetch_factor;
  config::Auto<int> read_ahead;
  config::Auto<bool> pin_memory;
  bool shuffle = true;
  config::Stage sampler;  // empty: every sample once
  bool drop_last = false;

  static void describe(config::Describe<Loader>& options) {
    options
        .field("batch_size", &Loader::batch_size,
               "Samples a step on each device; auto: the largest that fits and still pays, found "
               "by trials before the run.")
        .at_least(1)
        .at_most(1 << 24)
        .example("128");
    options
        .field("num_workers", &Loader::num_workers,
               "Loader threads; 0: the training thread loads; auto: measured at the start.")
        .at_least(0)
        .at_most(256)
        .example("4");
    options
        .field("prefetch_factor", &Loader::prefetch_factor,
               "Batches prepared ahead, for each worker; auto: 2, more where their times differ.")
        .at_least(1)
        .at_most(64)
        .example("2");
    options
        .field("read_ahead", &Loader::read_ahead,
               "Batches whose files are read before their turn, in the order of the disk; 0: none; "
               "auto: while the data is not in the page cache.")
        .at_least(0)
        .at_most(4096)
        .example("8");
    options.field("pin_memory", &Loader::pin_memory,
                  "Copies to a GPU go through page-locked memory; auto: true.");
    options.field("shuffle", &Loader::shuffle,
                  "A new order of the training samples in every epoch.");
    options.stage("sampler", &Loader::sampler, "sampler",
                  "How training samples are drawn; absent: every sample once an epoch.");
    options.field("drop_last", &Loader::drop_last, "Leaves out a last batch that is not full.");
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

/// As torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn and use_buffers=True; the
/// warm-up of the decay is that of timm's ModelEmaV3, with its names.
struct Ema {
  static constexpr auto kSummary =
      "Exponential moving average of the weights; it is validated and saved in their place.";

  double decay = 0.999;
  std::int64_t every_n_steps = 1;
  std::int64_t start_epoch = 0;
  bool use_warmup = false;
  double warmup_gamma = DecayWarmup{}.gamma;
  double warmup_power = DecayWarmup{}.power;
  double min_decay = DecayWarmup{}.min_decay;

  [[nodiscard]] ExponentialDecay exponential_decay() const {
    if (!use_warmup) return {decay};
    return {decay, DecayWarmup{warmup_gamma, warmup_power, min_decay}};
  }

  static void describe(config::Describe<Ema>& options);  // experiment.cpp
};

/// As torch.optim.swa_utils.AveragedModel with use_buffers=True.
struct Swa {
  static constexpr auto kSummary =
      "Stochastic weight averaging (Izmailov et al. 2018): the mean of the weights of many steps; "
      "it "
      "is validated and saved in their place.";

  std::int64_t start_epoch = 0;
  config::Auto<std::int64_t> every_n_steps;

  static void describe(config::Describe<Swa>& options);  // experiment.cpp
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
  config::Auto<int> devices;  // of each node
  int num_nodes = 1;
  std::optional<std::int64_t> max_epochs;
  std::optional<std::int64_t> max_steps;
  std::optional<std::string> max_time;
  Precision precision = Precision::full;
  bool allow_slow_precision = false;
  MatmulPrecision float32_matmul_precision = MatmulPrecision::highest;
  config::Auto<bool> channels_last;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::off;
  config::Auto<bool> cuda_graphs;
  std::int64_t accumulate_grad_batches = 1;
  std::optional<double> gradient_clip_val;
  ClipAlgorithm gradient_clip_algorithm = ClipAlgorithm::norm;
  Limit limit_train_batches;
  Limit limit_val_batches;
  std::int64_t overfit_batches = 0;
  bool fast_dev_run = false;
  std::int64_t num_sanity_val_steps = 0;
  std::int64_t check_val_every_n_epoch = 1;
  std::int64_t log_every_n_steps = 50;
  std::optional<Ema> ema;
  std::optional<Swa> swa;
  config::Auto<std::int64_t> skip_nonfinite_steps;
  std::vector<Fallback> on_divergence;  // for each further attempt
  bool log_norms = false;
  bool deterministic = false;
  bool detect_anomaly = false;
  bool sync_batchnorm = false;
  config::Auto<int> num_threads;
  Allocator allocator = Allocator::system;
  config::Auto<std::string> hang_timeout;  // a span of time
  int max_restarts = 0;

  /// As Lightning has it: max_epochs; without it 10, or no limit where max_steps or max_time ends
  /// the run.
  [[nodiscard]] std::optional<std::int64_t> epoch_limit() const {
    return max_epochs || max_steps || max_time ? max_epochs : kDefaultEpochs;
  }

  static constexpr std::int64_t kDefaultEpochs = 10;
  static void describe(config::Describe<Trainer>& options);  // experiment.cpp
};

struct Checkpoint {
  static constexpr auto kSummary = "When state is saved, and what is kept.";

  std::optional<std::string> monitor;
  config::Auto<Mode> mode;
  int save_top_k = 1;
  bool save_last = true;
  std::int64_t every_n_epochs = 1;
  std::optional<std::int64_t> every_n_steps;
  std::optional<std::string> every_t;  // a span of time
  bool on_best = false;
  bool save_weights_only = false;
  bool asynchronous = true;

  static void describe(config::Describe<Checkpoint>& options);  // experiment.cpp
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

  static void describe(config::Describe<Dataset>& options);  // experiment.cpp
};

/// cross_entropy and constant, with their defaults.
config::Stage default_loss();
config::Stage default_scheduler();
/// console, csv and jsonl.
std::vector<config::Stage> default_loggers();

/// The whole file. Plain values: copied freely between threads.
/// Records a few steps of training, as torch.profiler with its schedule.
struct Profiler {
  static constexpr auto kSummary = "Records what a few steps of training do.";

  std::int64_t wait = 10;
  std::int64_t warmup = 2;
  std::int64_t active = 5;
  bool record_shapes = true;
  bool profile_memory = true;
  bool with_flops = true;
  bool nvtx = false;

  static void describe(config::Describe<Profiler>& options);  // experiment.cpp
};

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

  static void describe(config::Describe<Experiment>& options);  // experiment.cpp
};

}  // namespace trainctl::spec
