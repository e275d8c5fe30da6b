#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/machine/nvml.hpp"
#include "report/diagnosis/machine_grade.hpp"

#include <vector>

namespace trainctl::study {

struct ReadingsRequest {
  fs::path root = "/";         // of /proc, /sys and /dev: another one in tests
  fs::path disk;               // whose disk is looked at; empty: the current folder
  const Nvml* nvml = nullptr;  // null: the management library is not asked
};

/// Reads what grade_machine() judges. Nothing fails: what is not there, cannot be read or makes no
/// sense is left out.
report::MachineReadings read_machine_state(const ReadingsRequest& request);

struct NoiseProbe {
  double seconds = 3;  // of the whole
  int repeats = 30;    // each of them does the same work, in the cores and in memory
};

/// Seconds that each repeat took. One of each kind comes in turn, so that a slow moment meets both;
/// the first one, which warms caches and clocks up, is not told.
std::vector<double> probe_noise(const NoiseProbe& probe, const Clock& clock);

}  // namespace trainctl::study
