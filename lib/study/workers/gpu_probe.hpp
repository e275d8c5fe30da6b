#pragma once

#include <functional>
#include <string>

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
