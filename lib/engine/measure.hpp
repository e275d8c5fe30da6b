#pragma once

#include "engine/entry.h"
#include "spec/experiment.hpp"
#include "train/session.hpp"

#include <ATen/core/Tensor.h>

namespace trainctl::engine {

struct MeasureSetup {
  const TrainctlEngineRequest& request;
  const spec::Experiment& experiment;
  at::Device device = at::kCPU;
  const train::EventSink& emit;
};

/// In place of training: a few steps of the run's model on made-up batches, and events::Measured of
/// what they took. A batch that would take half of the memory, or too long, is extrapolated from
/// two small ones. Weights of a file are not loaded: their values change nothing. Returns the exit
/// code.
int measure(const MeasureSetup& setup);

}  // namespace trainctl::engine
