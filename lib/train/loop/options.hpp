#pragma once

#include "spec/experiment/enums.hpp"
#include "train/step/forward.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::train {

/// Which checkpoints are written, beside those after epochs, and of what. The files of weights that
/// people take away are another matter.
struct Saving {
  bool asynchronous = true;
  std::int64_t top_k = 1;  // of the best are kept; -1: all that were ever written
  std::optional<std::int64_t> every_n_steps;
  std::optional<double> every_s;
  bool weights_only = false;  // no run can go on from them
};

/// An average of the weights over steps.
struct Averaging {
  std::optional<double> decay;               // of an exponential average; none: the mean of all
  config::Auto<std::int64_t> every_n_steps;  // auto: those of an epoch
  std::int64_t start_epoch = 0;
  std::optional<spec::DecayWarmup> decay_warmup = {};
};

/// Nothing where the trainer averages nothing.
std::optional<Averaging> averaging_of(const spec::Trainer& trainer);

/// Whether the average takes in the weights after that step; `steps_per_epoch`: optimizer steps.
bool averages_step(const Averaging& options, std::int64_t steps_per_epoch,
                   std::int64_t global_step);

/// What the loop does, with every `auto` and every implication of the experiment resolved.
struct Options {
  at::Device device = at::kCPU;
  std::optional<std::int64_t> max_epochs = 1;
  std::optional<std::int64_t> until_epoch;  // this start ends there; schedules are of max_epochs
  std::optional<std::int64_t> max_steps;
  std::optional<double> max_time_s;
  std::int64_t accumulate = 1;
  std::optional<double> clip;
  spec::ClipAlgorithm clip_algorithm = spec::ClipAlgorithm::norm;
  std::int64_t sanity_steps = 0;
  std::int64_t validate_every = 1;  // epochs
  std::int64_t log_every = 50;      // steps
  ForwardOptions forward;
  std::optional<Averaging> averaging;
  std::int64_t may_skip = 0;  // steps in a row that are not finite
  bool log_norms = false;
  std::optional<spec::Profiler> profiler;
  bool detect_anomaly = false;
  config::Auto<bool> cuda_graphs{false};
  std::optional<std::string> capture_obstacle;  // as far as the experiment tells
  bool pin_memory = true;
  std::string monitor = "train/loss";  // decides which weights are best
  spec::Mode mode = spec::Mode::min;
  bool save_best = true;
  bool save_last = true;
  std::int64_t save_every = 1;   // epochs
  bool save_on_best = false;     // after an epoch that is the best so far, too
  std::optional<Saving> saving;  // absent: none are written
  spec::Strategy strategy = spec::Strategy::ddp;
  std::int64_t sync_every = 1;  // optimizer steps, of local_sgd
  bool sync_batch_norm = false;
};

/// On one of `ranks`.
Options options_from(const spec::Experiment& experiment, at::Device device, int ranks = 1);

}  // namespace trainctl::train
