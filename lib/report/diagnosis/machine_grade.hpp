#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// Grades a machine from its readings alone; tests use invented readings.

namespace trainctl::report {

/// degraded: something is slower than necessary; bad: it costs most of the speed or may end a run;
/// broken: trainctl cannot train, or not on a GPU.
enum class Grade { ok, degraded, bad, broken };
constexpr std::array<const char*, 4> enum_names(Grade) {
  return {"ok", "degraded", "bad", "broken"};
}

/// The grade of one aspect of a machine.
struct GradeLine {
  Grade grade = Grade::ok;
  std::string found;
  std::string costs = {};  // the effect; empty if all is well or it is obvious
  std::string fix = {};    // a command, or what to do
  std::string name = {};   // "governor"
};
GradeLine grade_line(std::string name, Grade grade, std::string found, std::string costs = {},
                     std::string fix = {});

/// A GPU on the PCI bus.
struct PciGpu {
  std::string address;  // "0000:17:00.0"
  double speed = 0;     // current GT/s, which drops when the card is idle; 0: unknown
  double speed_max = 0;
  int width = 0;  // lanes
  int width_max = 0;
};

/// The disk below a path.
struct DiskReading {
  std::string path;
  std::string type;                // of the file system: "ext4", "nfs4"; empty: unknown
  std::string device;              // "nvme0n1"
  std::optional<bool> rotational;  // a hard disk
  std::optional<std::uint64_t> free_bytes;
  std::optional<bool> writable;
};

/// The readings from the kernel and the driver; absent or empty: not reported.
struct MachineReadings {
  std::map<std::string, int> governors;  // governor -> number of cores
  std::optional<bool> turbo;
  int cores = 0;                    // in the CPU affinity mask
  std::optional<double> cpu_quota;  // in cores
  std::uint64_t throttled = 0;      // number of periods in which the quota throttled the cgroup
  double pressure = 0;              // percent of the last 10 s in which a thread waited for a core
  std::vector<std::string> cpu_flags;
  std::uint64_t memory_total = 0;
  std::uint64_t memory_available = 0;
  std::optional<std::uint64_t> memory_limit;  // of the cgroups
  std::uint64_t swap_used = 0;
  std::string huge_pages;  // "madvise"
  std::optional<std::uint64_t> open_files;
  std::optional<std::uint64_t> open_files_hard;
  std::optional<std::uint64_t> locked_bytes;  // absent: no limit
  bool has_infiniband = false;
  std::optional<std::uint64_t> shm_bytes;
  DiskReading disk;
  std::vector<PciGpu> gpus;
  int nvlinks = 0;             // number of active links of all GPUs
  std::string kernel_driver;   // version of the NVIDIA kernel module
  std::string library_driver;  // version of the NVIDIA user-space library
  bool driver_mismatch = false;
  std::optional<int> cuda;  // the CUDA version that the driver supports: 13000
  std::map<std::string, std::string> environment;  // variables OMP_*, GOMP_*, MKL_*
};

/// Returns one line for each aspect, in a fixed order. Text from the readings is made printable.
std::vector<GradeLine> grade_machine(const MachineReadings& readings);

}  // namespace trainctl::report
