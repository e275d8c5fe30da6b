#pragma once

#include "dist/communicator.hpp"
#include "spec/experiment/experiment.hpp"
#include "stage/registry.hpp"
#include "train/measure/auto_settings.hpp"

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

}  // namespace trainctl::engine
