#pragma once

#include "dist/communicator.hpp"
#include "spec/experiment/experiment.hpp"
#include "stage/registry.hpp"
#include "train/measure/auto_settings.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace trainctl::engine {

/// What decides the number of CPU threads of this process.
struct ThreadContext {
  const spec::Experiment& experiment;
  const stage::Catalogue& catalogue;
  stage::ModelContext model;
  at::Device device = at::kCPU;
  int local_world_size = 1;
  std::optional<int> before = {};  // of the run that goes on
};

/// Samples that the model takes, and targets that its loss does, of random numbers.
struct MadeUpBatch {
  at::Tensor inputs;
  at::Tensor targets;
};
MadeUpBatch made_up_batch(const stage::ModelContext& model, std::int64_t rows, at::Device device);

/// Forward and backward of a throwaway model on made-up data of the run's shape, to be timed; ends
/// when the device is done. Draws random numbers: seed afterwards.
std::function<void()> throwaway_step(const ThreadContext& context);

/// trainer.num_threads, or for `auto` what the run had before where the cores suffice, else what a
/// short probe with a throwaway model finds; sets it.
/// Rank 0 probes for all: the number decides the order of additions, so every rank computes with
/// the same one. Draws random numbers, too.
train::ThreadChoice choose_threads(const ThreadContext& context, dist::Communicator& communicator);

/// The inputs of the choice of a memory format.
struct LayoutContext {
  const spec::Experiment& experiment;
  const stage::Catalogue& catalogue;
  stage::ModelContext model;
  at::Device device = at::kCPU;
  std::optional<bool> before = {};  // the choice of the run that is resumed or evaluated
  bool trains = true;               // else a CPU is not probed
};

/// Returns trainer.channels_last; for `auto` the choice of the run that is resumed, else on a GPU
/// that of train::choose_layout(), from the operations of one forward pass of a throwaway model,
/// and on a CPU that of train::probe_layout(), with the number of threads that is set. Draws random
/// numbers: seed afterwards.
train::LayoutChoice choose_layout(const LayoutContext& context);

/// The same on several ranks: rank 0 chooses for all.
train::LayoutChoice choose_layout(const LayoutContext& context, dist::Communicator& communicator);

}  // namespace trainctl::engine
