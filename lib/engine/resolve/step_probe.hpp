#pragma once

#include "device/feed.hpp"
#include "stage/registry.hpp"
#include "train/measure/auto_settings.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace trainctl::engine {

/// The choices of the run that is resumed or evaluated. They decide the order of additions, and so
/// the bits of its numbers.
struct EarlierChoices {
  std::optional<int> threads;
  std::optional<bool> channels_last;
};

/// The inputs of the choices of this process: its number of CPU threads and a memory format.
struct ProbeContext {
  const spec::Experiment& experiment;
  const stage::Catalog& catalog;
  stage::ModelContext model;
  at::Device device = at::kCPU;
  int local_world_size = 1;
  EarlierChoices before = {};
  bool trains = true;  // else a CPU is not probed for its memory format
};

/// Samples that the model takes, and targets that its loss does, of random numbers.
device::DeviceBatch made_up_batch(const stage::ModelContext& model, std::int64_t rows,
                                  at::Device device);

/// Forward and backward of a throwaway model on made-up data of the run's shape, to be timed; ends
/// when the device is done. Draws random numbers: seed afterwards.
std::function<void()> throwaway_step(const ProbeContext& context);

/// Sets and returns trainer.num_threads, or for `auto` what the run had before where the cores
/// suffice, else what a short probe with a throwaway model finds. Rank 0 probes for all, since the
/// number decides the order of additions. Draws random numbers, too.
train::ThreadChoice choose_threads(const ProbeContext& context, dist::Communicator& communicator);

/// Returns trainer.channels_last; for `auto` the choice of the run that is resumed, else that of
/// train::choose_layout() on a GPU and of train::probe_layout() on a CPU, with the number of
/// threads that is set. Rank 0 chooses for all. Draws random numbers: seed afterwards.
train::LayoutChoice choose_layout(const ProbeContext& context, dist::Communicator& communicator);

}  // namespace trainctl::engine
