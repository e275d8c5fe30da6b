#pragma once

#include "engine/tasks/task_setup.hpp"

namespace trainctl::engine {

/// The task `check`: builds the model and compares the tensors that spec::kOfferedFile lists, the
/// patterns of `freeze` and those of the optimizer with its parameters. Writes every problem to
/// spec::kProblemsFile. Returns the exit code.
int check_model(const TaskSetup& setup);

}  // namespace trainctl::engine
