#pragma once

#include "spec/experiment/enums.hpp"
#include "spec/experiment/value_types.hpp"
#include "train/step/forward.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::train {

/// Which checkpoints are written in addition to those after epochs, and how. Exported weight files
/// (best, last) are separate.
struct Saving {
  bool asynchronous = true;
  std::int64_t top_k = 1;  // number of best checkpoints to keep; -1: keep all
  std::optional<std::int64_t> every_n_steps;
  std::optional<double> every_s;
  bool weights_only = false;  // checkpoints without optimizer state, from which no run can resume
};

/// Options of the average of the weights over steps.
struct Averaging {
  std::optional<double> decay;               // of an exponential average; nullopt: the mean of all
  config::Auto<std::int64_t> every_n_steps;  // auto: the steps of one epoch
  std::int64_t start_epoch = 0;
  std::optional<spec::DecayWarmup> decay_warmup = {};
};

/// Returns nullopt if the trainer does not average weights.
std::optional<Averaging> averaging_of(const spec::Trainer& trainer);

/// Returns whether the average includes the weights after this step. `steps_per_epoch` counts
/// optimizer steps.
bool averages_step(const Averaging& options, std::int64_t steps_per_epoch,
                   std::int64_t global_step);

/// The options of the loop, with every `auto` and every implication of the experiment resolved.
struct Options {
  at::Device device = at::kCPU;
  std::optional<std::int64_t> max_epochs = 1;
  std::optional<std::int64_t> until_epoch;  // this process stops there; schedules use max_epochs
  std::optional<std::int64_t> max_steps;
  std::optional<double> max_time_s;
  std::int64_t accumulate = 1;
  std::optional<double> clip;
  spec::ClipAlgorithm clip_algorithm = spec::ClipAlgorithm::norm;
  std::int64_t sanity_steps = 0;
  std::int64_t validate_every = 1;  // epochs
  spec::Limit validation_interval;  // within these epochs, in optimizer steps
  std::int64_t log_every = 50;      // steps
  ForwardOptions forward;
  std::optional<spec::TestTimeAugmentation> test_time_augmentation;
  std::optional<Averaging> averaging;
  std::int64_t may_skip = 0;  // allowed number of consecutive non-finite steps
  bool log_norms = false;
  bool log_layer_norms = false;
  std::int64_t weights_every = 0;  // steps between histograms of weights and gradients; 0: none
  std::optional<spec::Profiler> profiler;
  bool detect_anomaly = false;
  config::Auto<bool> cuda_graphs{false};
  std::optional<std::string> capture_obstacle;  // why the experiment rules out CUDA graphs
  bool pin_memory = true;
  std::string monitor = "train/loss";  // the metric that selects the best weights
  spec::Mode mode = spec::Mode::min;
  bool save_best = true;
  bool save_last = true;
  std::int64_t save_every = 1;   // epochs
  bool save_on_best = false;     // also after an epoch that is the best so far
  std::optional<Saving> saving;  // nullopt: no checkpoints
  spec::Strategy strategy = spec::Strategy::ddp;
  std::int64_t sync_every = 1;  // in optimizer steps, for local_sgd
  bool sync_batch_norm = false;
};

/// Resolves the options for a run with `ranks` ranks.
Options options_from(const spec::Experiment& experiment, at::Device device, int ranks = 1);

}  // namespace trainctl::train
