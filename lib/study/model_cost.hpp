#pragma once

#include "events/records.hpp"
#include "spec/load.hpp"

#include <filesystem>

namespace trainctl::study {

/// What a model is measured with.
struct MeasureRequest {
  const spec::Loaded& loaded;
  std::filesystem::path executable;  // started as `trainctl worker`
  bool times_steps = false;
};

/// A few steps of the model in a worker process of its own, on the device of the run (on the CPU
/// where this machine has no GPU), in a folder that is removed. Throws what a run would end with
/// where model and data do not fit, and Error(resource) where the memory does not suffice.
events::Measured measure_model(const MeasureRequest& request);

}  // namespace trainctl::study
