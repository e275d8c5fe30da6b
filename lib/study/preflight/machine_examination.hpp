#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/machine/nvml.hpp"
#include "report/diagnosis/gpu_grade.hpp"
#include "report/diagnosis/machine_grade.hpp"
#include "study/workers/devices.hpp"

#include <optional>
#include <string>
#include <vector>

// The checks of `doctor`: the program's parts, its libraries and the machine.

namespace trainctl::study {

/// Where read_machine_state() reads from.
struct ReadingsRequest {
  fs::path root = "/";         // parent of /proc, /sys and /dev; tests use another one
  fs::path disk;               // a path on the disk to examine; empty: the current folder
  const Nvml* nvml = nullptr;  // null: NVML is not queried
};

/// Reads the values that grade_machine() evaluates. Never fails: values that are missing,
/// unreadable or implausible are omitted.
report::MachineReadings read_machine_state(const ReadingsRequest& request);

/// The length of probe_noise().
struct NoiseProbe {
  double seconds = 3;  // of the whole probe
  int repeats = 30;    // each repeat does the same work, once in the cores and once in memory
};

/// Returns the seconds of each repeat. Repeats of both kinds alternate, so that a slow moment
/// affects both; the first repeat, which warms up caches and clocks, is not included.
std::vector<double> probe_noise(const NoiseProbe& probe, const Clock& clock);

/// The parts that this program was built with.
struct ProgramParts {
  bool has_engine = false;
  bool has_kernels = false;  // a CUDA compiler was found at build time
  fs::path torch_lib;        // folder of libtorch at build time; empty without the engine
  fs::path executable;
  std::optional<fs::path> engine;  // the engine's library; absent if it was not built
  std::optional<fs::path> engine_with_cuda = {};
};

/// Runs all checks without loading libtorch. Takes about half a second, mostly for loading OpenCV.
std::vector<report::GradeLine> examine_machine(const ProgramParts& program);

/// Returns what the CUDA driver, the self-test, the kernel, the program and NVML report about GPUs.
/// NVML is loaded into this process.
report::GpuFacts examine_gpus(const ProgramParts& program, const launch::GpuProbe& found,
                              std::optional<report::GpuTest> test);

}  // namespace trainctl::study
