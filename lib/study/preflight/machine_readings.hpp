#pragma once

#include "base/files.hpp"
#include "base/machine/nvml.hpp"
#include "report/diagnosis/machine_grade.hpp"

namespace trainctl::study {

struct ReadingsRequest {
  fs::path root = "/";         // of /proc, /sys and /dev: another one in tests
  fs::path disk;               // whose disk is looked at; empty: the current folder
  const Nvml* nvml = nullptr;  // null: the management library is not asked
};

/// Reads what grade_machine() judges. Nothing fails: what is not there, cannot be read or makes no
/// sense is left out.
report::MachineReadings read_machine_state(const ReadingsRequest& request);

}  // namespace trainctl::study
