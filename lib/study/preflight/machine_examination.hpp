#pragma once

#include "base/files.hpp"
#include "report/diagnosis/gpu_grade.hpp"
#include "study/workers/devices.hpp"

#include <optional>
#include <string>
#include <vector>

// The checks of `doctor`: the program's parts, its libraries and the machine.

namespace trainctl::study {

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
