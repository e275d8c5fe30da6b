#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// What of a machine makes training slow, from readings alone: tested with invented ones.

namespace trainctl::report {

/// degraded: something is slower than it need be; bad: it costs most of the speed or may end a run.
enum class Grade { ok, degraded, bad };
const char* name_of(Grade grade);

struct GradeLine {
  Grade grade = Grade::ok;
  std::string found;
  std::string costs = {};  // what it costs; empty where all is well
  std::string fix = {};    // a command, or what to do
  std::string name = {};   // "governor"
};

struct PciGpu {
  std::string address;  // "0000:17:00.0"
  double speed = 0;     // GT/s, now: it falls where the card is idle; 0: not known
  double speed_max = 0;
  int width = 0;  // lanes
  int width_max = 0;
};

struct DiskReading {
  std::string path;
  std::string type;                // of the file system: "ext4", "nfs4"; empty: not known
  std::string device;              // "nvme0n1"
  std::optional<bool> rotational;  // a hard disk
  std::optional<std::uint64_t> free_bytes;
  std::optional<bool> writable;
};

/// What the kernel and the driver tell; absent or empty: they do not.
struct MachineReadings {
  std::map<std::string, int> governors;  // cores of each
  std::optional<bool> turbo;
  int cores = 0;                    // of the affinity
  std::optional<double> cpu_quota;  // cores
  std::uint64_t throttled = 0;      // periods in which the quota stopped this group
  double pressure = 0;              // percent of the last 10 s in which a thread waited for a core
  std::vector<std::string> cpu_flags;
  std::uint64_t memory_total = 0;
  std::uint64_t memory_available = 0;
  std::optional<std::uint64_t> memory_limit;  // of the control groups
  std::uint64_t swap_used = 0;
  std::string huge_pages;  // "madvise"
  std::optional<std::uint64_t> open_files;
  std::optional<std::uint64_t> open_files_hard;
  std::optional<std::uint64_t> locked_bytes;  // absent: no limit
  bool has_infiniband = false;
  std::optional<std::uint64_t> shm_bytes;
  DiskReading disk;
  std::vector<PciGpu> gpus;
  int nvlinks = 0;             // active, of all GPUs
  std::string kernel_driver;   // version of the NVIDIA kernel module
  std::string library_driver;  // and of its library
  bool driver_mismatch = false;
  std::optional<int> cuda;                         // that the driver serves: 13000
  std::map<std::string, std::string> environment;  // of OMP_*, GOMP_*, MKL_*
};

/// A line for each thing, in one order. Text of the readings is made printable.
std::vector<GradeLine> grade_machine(const MachineReadings& readings);

}  // namespace trainctl::report
