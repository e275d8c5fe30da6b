#pragma once

#include "engine/entry.h"
#include "spec/experiment/experiment.hpp"
#include "train/loop/session.hpp"

#include <ATen/core/Tensor.h>

namespace trainctl::engine {

/// What a worker has for a task in place of training: a measurement, a step that is repeated.
struct TaskSetup {
  const TrainctlEngineRequest& request;
  const spec::Experiment& experiment;
  at::Device device = at::kCPU;
  const train::EventSink& emit;
};

}  // namespace trainctl::engine
