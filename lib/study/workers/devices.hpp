#pragma once

#include "base/clock.hpp"
#include "base/machine/machine.hpp"
#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainctl::launch {

/// The GPUs that the CUDA driver reports, subject to CUDA_VISIBLE_DEVICES.
struct GpuProbe {
  int count = 0;
  std::string problem;  // why there are none: "libcuda.so.1 is not there"
};

/// Queries the driver in a child process, because its library must neither stay loaded in this
/// process nor hang it. Must not be called while a job is being supervised.
GpuProbe probe_gpus(const std::string& library = "libcuda.so.1", double timeout_s = 30);

using ProbeGpus = std::function<GpuProbe()>;

}  // namespace trainctl::launch

namespace trainctl::study {

/// The devices of a run's workers, chosen once before the first worker starts and passed to each.
struct DeviceChoice {
  bool gpu = false;
  int ranks = 1;               // on this node
  int visible = 0;             // GPUs that the driver reports
  std::vector<int> gpus = {};  // those of the ranks, by number; empty: the first ones
  std::string names = {};      // of these as CUDA_VISIBLE_DEVICES names them; empty: unchanged
  std::string warning;  // why `auto` did not use all GPUs that seem to be present; else empty
};

/// Returns the devices for trainer.accelerator and trainer.devices on this machine. The driver is
/// only queried if there are device files, or if CUDA_VISIBLE_DEVICES names a GPU. Throws
/// Error(resource) when more GPUs are requested than the driver reports, and when it reports none
/// although trainer.accelerator is gpu, or is auto and CUDA_VISIBLE_DEVICES names a GPU.
DeviceChoice choose_devices(const spec::Trainer& trainer, const Machine& machine,
                            const launch::ProbeGpus& probe);

/// Returns the devices of a run: those of choose_devices(), with a single rank for all GPUs if
/// distributed.type is data_parallel. Throws Error(config) if data_parallel would run on CPUs.
DeviceChoice devices_of_run(const spec::Experiment& experiment, const Machine& machine,
                            const launch::ProbeGpus& probe);

/// Sets the number of devices; of a list of GPUs, the first ones are kept.
void set_devices(spec::Trainer& trainer, int count);

/// Free bytes of each GPU of the machine, by GPU number.
using FreeMemory = std::vector<std::uint64_t>;

/// Returns the free memory that NVML reports to a child process; empty if NVML is not available.
/// Must not be called while a job is being supervised.
FreeMemory free_device_memory(const std::string& library = "libnvidia-ml.so.1");

/// Returns the free memory before the first start, if GPUs may be used and restarts are possible;
/// else empty.
FreeMemory memory_before(const spec::Trainer& trainer);

/// How wait_for_free_memory() polls and waits.
struct MemoryWait {
  std::function<FreeMemory()> probe;
  std::function<bool()> is_stopped;
  std::function<void()> pause;
  const Clock& clock;
  double most_s = 50;
};

/// Waits until each GPU has about as much free memory as `before`, because the driver frees the
/// memory of a killed process some time after its exit. Returns false if that takes too long or is
/// stopped.
bool wait_for_free_memory(const FreeMemory& before, const MemoryWait& wait);

}  // namespace trainctl::study
