#pragma once

#include "base/machine/machine.hpp"
#include "spec/experiment/experiment.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace trainctl::spec {

/// The devices and ranks of a run, as far as the machine's device files show them without libtorch.
struct Placement {
  bool on_gpus = false;
  int ranks = 1;       // over all nodes
  int ranks_here = 1;  // on one node
};

inline Placement placement_of(const Trainer& trainer, const Machine& machine) {
  /// Returns the placement that `trainer` requests on this machine.
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
