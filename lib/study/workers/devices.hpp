#pragma once

#include "base/clock.hpp"
#include "base/machine/machine.hpp"
#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainctl::launch {

/// What the CUDA driver says of this machine's GPUs, CUDA_VISIBLE_DEVICES included.
struct GpuProbe {
  int count = 0;
  std::string problem;  // why there are none: "libcuda.so.1 is not there"
};

/// Asks the driver, in a child process: its library must neither stay in this one nor hang it. Not
/// while a job is being supervised.
GpuProbe probe_gpus(const std::string& library = "libcuda.so.1", double timeout_s = 30);

using ProbeGpus = std::function<GpuProbe()>;

}  // namespace trainctl::launch

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

/// Bytes that nobody holds, of each GPU of the machine by its number.
using FreeMemory = std::vector<std::uint64_t>;

/// As the driver's management library tells, which is asked in a child process. Empty where it does
/// not tell. Not while a job is being supervised.
FreeMemory free_device_memory(const std::string& library = "libnvidia-ml.so.1");

/// The same before the first start, where GPUs may be used and other starts may follow; else empty.
FreeMemory memory_before(const spec::Trainer& trainer);

/// How await_memory() asks and waits.
struct MemoryWait {
  std::function<FreeMemory()> probe;
  std::function<bool()> is_stopped;
  std::function<void()> pause;
  const Clock& clock;
  double most_s = 50;
};

/// The driver takes back what a killed process held some time after its end: waits until each GPU
/// has about as much free as `before`. False where that does not come in time, or is stopped.
bool await_memory(const FreeMemory& before, const MemoryWait& wait);

}  // namespace trainctl::study
