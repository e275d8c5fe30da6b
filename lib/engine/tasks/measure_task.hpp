#pragma once

#include "engine/tasks/task_setup.hpp"

namespace trainctl::engine {

/// In place of training: a few steps of the run's model on made-up batches, and events::Measured of
/// what they took. A batch that would take half of the memory, or too long, is extrapolated from
/// two small ones. Weights of a file are not loaded: their values change nothing. Returns the exit
/// code.
int measure(const TaskSetup& setup);

}  // namespace trainctl::engine
