#pragma once

#include "engine/tasks/task_setup.hpp"

namespace trainctl::engine {

/// In place of training: forward and backward pass of the step that the task's dump holds, with the
/// model, loss and precision of the experiment, and events::Replayed of what came out. Returns the
/// exit code, 0 whatever the values are. Throws Error(checkpoint) where the dump is damaged,
/// Error(config) where it has no batch.
int replay(const TaskSetup& setup);

}  // namespace trainctl::engine
