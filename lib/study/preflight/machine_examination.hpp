#pragma once

#include "base/files.hpp"
#include "report/diagnosis/gpu_grade.hpp"
#include "study/workers/devices.hpp"

#include <optional>
#include <string>
#include <vector>

// The checks of `doctor`: the program's parts, its libraries and the machine.

namespace trainctl::study {

/// bad: costs most of the speed or may end a run; broken: trainctl cannot train.
enum class Health { ok, degraded, bad, broken };

/// The result of one check.
struct MachineFinding {
  std::string name;  // "memory"
  Health health = Health::ok;
  std::string found;       // "5.1 GiB of 23.5 GiB are free"
  std::string hint = {};   // what to do; empty if the check passed
  std::string costs = {};  // the effect of the problem; empty if it is obvious
};

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
std::vector<MachineFinding> examine_machine(const ProgramParts& program);

/// Returns what the CUDA driver, the self-test, the kernel, the program and NVML report about GPUs.
/// NVML is loaded into this process.
report::GpuFacts examine_gpus(const ProgramParts& program, const launch::GpuProbe& found,
                              std::optional<report::GpuTest> test);

/// Returns the lines of grade_gpus() as findings.
std::vector<MachineFinding> gpu_findings(const report::GpuFacts& facts);

}  // namespace trainctl::study
