#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/machine/nvml.hpp"
#include "report/diagnosis/machine_grade.hpp"

#include <vector>

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

}  // namespace trainctl::study
