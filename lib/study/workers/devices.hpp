#pragma once

#include "base/machine/machine.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/workers/gpu_probe.hpp"

#include <string>

namespace trainctl::study {

/// Where a run's workers compute: decided once, before the first of them starts, and told to each.
struct DeviceChoice {
  bool gpu = false;
  int ranks = 1;        // of this node
  int visible = 0;      // GPUs that the driver shows
  std::string warning;  // why `auto` did not take the GPUs that seem to be there; else empty
};

/// trainer.accelerator and trainer.devices on this machine. The driver is asked only where there
/// are device files. Throws Error(resource) where more GPUs are asked for than the driver has.
DeviceChoice choose_devices(const spec::Trainer& trainer, const Machine& machine,
                            const launch::ProbeGpus& probe);

}  // namespace trainctl::study
