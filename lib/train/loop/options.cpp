#include "train/loop/options.hpp"

#include "base/error.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment/value_types.hpp"
#include "spec/options/logger.hpp"

#include <algorithm>

namespace trainctl::train {

namespace {

/// The float16 loss scale halves 16 times, from 65,536 to 1, in as many non-finite steps.
constexpr std::int64_t kSkippedWhileScaling = 100;

double seconds_of(const char* key, const std::string& text) {
  const std::optional<double> seconds = spec::parse_duration(text);
  ENSURE(config, seconds.has_value(), "{} '{}' is not a duration", key, text);
  return *seconds;
}

std::optional<Saving> saving_of(const spec::Checkpoint& checkpoint) {
  const bool keeps = checkpoint.save_last || checkpoint.save_top_k != 0;
  if (!keeps) return std::nullopt;
  Saving saving{checkpoint.asynchronous, checkpoint.save_top_k, checkpoint.every_n_steps, {}};
  if (checkpoint.every_t) saving.every_s = seconds_of("checkpoint.every_t", *checkpoint.every_t);
  saving.weights_only = checkpoint.save_weights_only;
  return saving;
}

}  // namespace

Options options_from(const spec::Experiment& experiment, at::Device device, int ranks) {
  const spec::Trainer& trainer = experiment.trainer;
  Options options;
  options.device = device;
  options.max_epochs = trainer.epoch_limit();
  options.max_steps = trainer.max_steps;
  if (trainer.max_time) options.max_time_s = seconds_of("trainer.max_time", *trainer.max_time);
  options.accumulate = trainer.accumulate_grad_batches;
  options.clip = trainer.gradient_clip_val;
  options.clip_algorithm = trainer.gradient_clip_algorithm;
  options.sanity_steps = trainer.num_sanity_val_steps;
  options.validate_every = trainer.check_val_every_n_epoch;
  options.validation_interval = trainer.val_check_interval;
  options.log_every = trainer.log_every_n_steps;
  options.forward = forward_options(trainer);
  options.test_time_augmentation = trainer.test_time_augmentation;
  options.averaging = averaging_of(trainer);
  const bool scales = trainer.precision == spec::Precision::fp16_mixed;
  options.may_skip = trainer.skip_nonfinite_steps.value_or(scales ? kSkippedWhileScaling : 0);
  options.log_norms = trainer.log_norms;
  options.log_layer_norms = trainer.log_layer_norms;
  for (const config::Stage& logger : experiment.loggers) {
    if (const auto* board = logger.get_if<spec::logger::Tensorboard>())
      options.weights_every = board->weights_every_n_steps;
  }
  options.profiler = experiment.profiler;
  options.detect_anomaly = trainer.detect_anomaly;
  options.cuda_graphs = trainer.cuda_graphs;
  options.capture_obstacle = spec::capture_obstacle(experiment, {device.is_cuda(), ranks});
  options.pin_memory = experiment.loader.pin_memory.value_or(true);
  options.monitor = spec::checkpoint_monitor(experiment);
  options.mode = spec::resolve_mode(experiment.checkpoint.mode, options.monitor);
  options.save_best = experiment.checkpoint.save_top_k != 0;
  options.save_last = experiment.checkpoint.save_last;
  options.save_every = experiment.checkpoint.every_n_epochs;
  options.save_on_best = experiment.checkpoint.on_best;
  options.saving = saving_of(experiment.checkpoint);
  options.strategy = experiment.distributed.type;
  options.sync_every = experiment.distributed.sync_every.value_or(1);
  options.sync_batch_norm = trainer.sync_batchnorm;
  if (trainer.fast_dev_run) {  // only tests that the run works, and writes no files
    options.max_epochs = 1;
    options.sanity_steps = 0;
    options.save_best = options.save_last = false;
    options.saving.reset();
  }
  return options;
}

std::optional<Averaging> averaging_of(const spec::Trainer& trainer) {
  if (trainer.ema)
    return Averaging{trainer.ema->decay,
                     {trainer.ema->every_n_steps},
                     trainer.ema->start_epoch,
                     trainer.ema->exponential_decay().warmup};
  if (trainer.swa) return Averaging{{}, trainer.swa->every_n_steps, trainer.swa->start_epoch};
  return std::nullopt;
}

bool averages_step(const Averaging& options, std::int64_t steps_per_epoch,
                   std::int64_t global_step) {
  const std::int64_t start = options.start_epoch * steps_per_epoch;
  const std::int64_t every =
      options.every_n_steps.value_or(std::max<std::int64_t>(steps_per_epoch, 1));
  return global_step > start && (global_step - start) % every == 0;
}

}  // namespace trainctl::train
