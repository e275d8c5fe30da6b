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

/// Times steps that so many ranks take together, as processes side by side on the cores of this
/// machine, with the exchange of their gradients. `alone`: the model as measure_model() found it.
/// Throws as that does.
events::Measured measure_shared_steps(const MeasureRequest& request, const events::Measured& alone,
                                      int ranks);

}  // namespace trainctl::study
