#pragma once

#include "base/files.hpp"
#include "events/records.hpp"
#include "spec/experiment/task.hpp"
#include "spec/load.hpp"

#include <functional>

namespace trainctl::study {

enum class TaskDevice { of_run, cpu };

/// A short task on the experiment's model that worker processes do in place of training.
struct ModelTask {
  const spec::Loaded& loaded;
  fs::path executable;  // started as `trainctl worker`
  spec::Task task;
  const char* purpose;  // "measures the model"; for the message where the process is killed
  const char* hint;     // what to do where memory is short
  TaskDevice device = TaskDevice::of_run;
  int ranks = 1;  // that do it together: no more than the devices of the run
};

using OnTaskEvent = std::function<void(const events::Event&)>;

/// Runs the task in `folder`, a scratch folder. The device of the run is the CPU where this
/// machine has no GPU. Throws what a run would end with where model and data do not fit,
/// and Error(resource) where the memory does not suffice.
void run_model_task(const ModelTask& task, const fs::path& folder, const OnTaskEvent& on_event);

}  // namespace trainctl::study
