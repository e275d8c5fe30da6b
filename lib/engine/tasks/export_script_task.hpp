#pragma once

#include "engine/tasks/task_setup.hpp"
#include "stage/stages.hpp"

#include <filesystem>

namespace trainctl::engine {

/// Writes the model in evaluation mode as a TorchScript program for any batch size, by tracing it;
/// parameters keep their names. Reads the file back and compares its outputs with the model's.
/// Throws Error(config) where tracing does not capture the model, Error(resource) where the file
/// cannot be written.
void write_script(stage::Model& model, const stage::ModelContext& shape,
                  const std::filesystem::path& path);

/// The task `script`: builds the model, loads the task's weights and writes spec::kScriptFile into
/// the run folder. Returns the exit code.
int export_script(const TaskSetup& setup);

}  // namespace trainctl::engine
