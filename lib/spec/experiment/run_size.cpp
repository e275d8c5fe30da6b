#include "spec/experiment/run_size.hpp"

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
