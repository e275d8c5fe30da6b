#pragma once

#include "engine/entry.h"
#include "spec/experiment.hpp"
#include "train/session.hpp"

#include <ATen/core/Tensor.h>

namespace trainctl::engine {

struct ReplaySetup {
  const TrainctlEngineRequest& request;
  const spec::Experiment& experiment;
  at::Device device = at::kCPU;
  const train::EventSink& emit;
};

/// In place of training: forward and backward pass of the step that the task's dump holds, with the
/// model, loss and precision of the experiment, and events::Replayed of what came out. Returns the
/// exit code, 0 whatever the values are. Throws Error(checkpoint) where the dump is damaged,
/// Error(config) where it has no batch.
int replay(const ReplaySetup& setup);

}  // namespace trainctl::engine
