#pragma once

#include "base/json.hpp"
#include "base/machine/nvml.hpp"
#include "events/records.hpp"
#include "report/diagnosis/machine_grade.hpp"

// Grades what training on GPUs requires, from facts alone; tests use invented facts.

namespace trainctl::report {

/// The results of the self-test of the GPUs.
struct GpuTest {
  std::vector<events::GpuChecked> checks;  // of all ranks, in the order in which they began
  std::string failure;                     // why the test ended early; empty: it did not
  std::optional<int> failed_gpu = {};      // whose process failed first
};

/// What is known about the GPUs of this machine; absent or empty: not reported.
struct GpuFacts {
  bool has_engine = false;             // libtrainctl_engine_cuda.so exists
  bool has_kernels = false;            // this build has trainctl's own GPU kernels
  int device_files = 0;                // /dev/nvidia0 and so on
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES
  int usable = 0;                      // GPUs that the CUDA driver finds
  std::string problem;                 // why it finds none
  std::string nvml_failure;            // why NVML cannot be used
  bool driver_mismatch = false;        // library and kernel module have different versions
  std::string driver;                  // "580.95.05"
  std::optional<int> cuda;             // the version that the driver supports: 13000
  std::vector<GpuState> gpus;          // all of the machine, in the order of PCI addresses
  std::optional<GpuTest> test;         // absent: not run
};

/// Adds an event of the self-test: the begin of a check, or its end.
void add_check(GpuTest& test, const events::GpuChecked& event);

/// Returns a line for each requirement, for each property of the GPUs and for each check of the
/// self-test, with its results on all GPUs. Text from the facts is made printable.
std::vector<GradeLine> grade_gpus(const GpuFacts& facts);

/// Returns the key `gpu` of doctor's document.
Json gpu_facts_json(const GpuFacts& facts);

}  // namespace trainctl::report
