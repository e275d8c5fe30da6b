#pragma once

#include "base/machine/machine.hpp"
#include "spec/experiment/experiment.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace trainctl::spec {

/// Where the run takes place, as far as it is known without libtorch: by the machine's device
/// files.
struct Placement {
  bool on_gpus = false;
  int ranks = 1;       // of all nodes
  int ranks_here = 1;  // of one node
};

inline Placement placement_of(const Trainer& trainer, const Machine& machine) {
  const int gpus = static_cast<int>(machine.gpus.size());
  const bool on_gpus = trainer.accelerator == Accelerator::gpu ||
                       (trainer.accelerator == Accelerator::automatic && gpus > 0);
  const int here = trainer.devices.value_or(on_gpus && gpus > 0 ? gpus : 1);
  return {on_gpus, here * trainer.num_nodes, here};
}

/// How long a run is at most. `steps` are the optimizer's; nothing where they are not known.
struct RunLength {
  std::int64_t epochs = 0;  // 0: not known, as with max_time alone
  std::optional<std::int64_t> steps;
  std::int64_t steps_per_epoch = 0;  // 0: not known

  [[nodiscard]] std::optional<std::int64_t> known_epochs() const {
    return epochs > 0 ? std::optional(epochs) : std::nullopt;
  }
};

/// Batches of a training epoch, the same on every rank: the arithmetic of data::BatchPlan.
std::int64_t train_batches(const Experiment& experiment, std::int64_t samples, int ranks);

/// Rows for which a rank needs room: the batch size, or fewer where all samples make one short
/// batch. Even then, as mixed batches are halved.
std::int64_t rows_of_batch(std::int64_t batch_size, std::int64_t samples, int ranks);

/// The run that a schedule is laid over: the shorter of max_epochs and max_steps, after limits,
/// overfit_batches and accumulation. fast_dev_run does not shorten it: its one step is the first of
/// the same schedule. Without `samples` max_steps alone bounds the steps.
RunLength schedule_length(const Experiment& experiment, std::optional<std::int64_t> samples,
                          int ranks);

/// Ranks on GPUs agree on a stop after every so many steps, or batches of validation: where lines
/// are logged, and the host waits anyway, or a little more often, as a signal waits for it.
constexpr std::int64_t agreement_every(std::int64_t log_every_n_steps) {
  return std::min<std::int64_t>(log_every_n_steps, 10);
}

}  // namespace trainctl::spec
