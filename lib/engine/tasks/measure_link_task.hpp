#pragma once

#include "engine/entry.h"
#include "train/loop/session.hpp"

#include <ATen/core/Tensor.h>

namespace trainctl::engine {

struct LinkSetup {
  const TrainctlEngineRequest& request;
  at::Device device = at::kCPU;
  const train::EventSink& emit;
};

/// In place of training: sums of tensors from 1 KiB to 64 MiB over all ranks, one behind the other,
/// as often as half a second of each size allows; rank 0 tells events::LinkMeasured. Returns the
/// exit code: 0, or that of a signal.
int measure_link(const LinkSetup& setup);

}  // namespace trainctl::engine
