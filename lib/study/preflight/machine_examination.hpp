#pragma once

#include "base/files.hpp"

#include <optional>
#include <string>
#include <vector>

// What `doctor` looks at: the program's parts, its libraries and the machine.

namespace trainctl::study {

/// bad: it costs most of the speed, or may end a run; broken: trainctl cannot train.
enum class Health { ok, degraded, bad, broken };

/// One thing that was looked at.
struct MachineFinding {
  std::string name;  // "memory"
  Health health = Health::ok;
  std::string found;       // "5.1 GiB of 23.5 GiB are free"
  std::string cure = {};   // what to do; empty where all is well
  std::string costs = {};  // what it costs as it is; empty where that is plain
};

/// What this program was built with.
struct ProgramParts {
  bool has_engine = false;
  bool has_kernels = false;  // a CUDA compiler was found
  fs::path torch_lib;        // folder of libtorch at build time; empty without the engine
  fs::path executable;
  std::optional<fs::path> engine;  // the engine's library; absent where it was not built
};

/// Looks at everything without loading libtorch; in half a second, most of which OpenCV takes to
/// load.
std::vector<MachineFinding> examine_machine(const ProgramParts& program);

}  // namespace trainctl::study
