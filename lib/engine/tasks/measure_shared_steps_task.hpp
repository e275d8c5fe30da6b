#pragma once

#include "engine/tasks/task_setup.hpp"

namespace trainctl::engine {

/// Takes steps on made-up batches of loader.batch_size together with the other ranks, which
/// exchange gradients as in a run, and emits events::Measured with the times. Returns the exit
/// code.
int measure_shared_steps(const TaskSetup& setup);

}  // namespace trainctl::engine
