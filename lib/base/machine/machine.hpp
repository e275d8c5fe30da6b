#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

/// Describes the machine, as read from /proc and /sys; empty or 0 if the kernel reports no value.
struct Machine {
  std::string host;
  std::string kernel;
  std::string distribution;
  std::string cpu_model;
  std::vector<std::string> cpu_features;  // for speed: avx2, fma, avx512f, amx_bf16, ...
  int cores = 0;                          // cores that this process may use
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::vector<std::string> gpus;  // device files /dev/nvidiaN that CUDA_VISIBLE_DEVICES selects
  std::vector<std::string> gpu_models = {};  // names that the driver reports
};

/// Reads /proc, /sys and CUDA_VISIBLE_DEVICES; a failure leaves a value empty.
Machine read_machine();

/// Returns the number of cores in this process' affinity and cgroup CPU quota, at least 1.
int usable_cores();
/// Environment variable of a process that was started on dedicated cores.
inline constexpr const char* kOwnCores = "TRAINCTL_OWN_CORES";
/// Environment variable with the number of cores of a process whose supervisor has only a part of
/// the machine.
inline constexpr const char* kCoresVariable = "TRAINCTL_CORES";
/// Returns the number of cores for one of `ranks` processes of a run on this machine, at least 1:
/// the number that the supervisor set, all usable cores if they are dedicated, or an equal share.
int cores_of_rank(int ranks);
/// Returns the percentage of the last 10 seconds in which some thread on the machine waited for a
/// core (https://docs.kernel.org/accounting/psi.html); 0 if not known.
double cpu_pressure(const std::filesystem::path& root = "/");
/// Returns the cores in the affinity mask of this process, by number.
std::vector<int> allowed_cores();
/// Returns the number of cores, possibly fractional, that the quotas of the control groups (v1 or
/// v2) allow; infinity without a quota.
double cpu_quota(const std::filesystem::path& root = "/");

/// Returns the bytes that can still be allocated: MemAvailable, or less if a cgroup (v1 or v2)
/// limits it. Reclaimable page cache counts as free.
std::uint64_t available_memory(const std::filesystem::path& root = "/");
/// Returns the memory of the machine, or less if a cgroup (v1 or v2) limits it; 0 if not known.
std::uint64_t memory_limit(const std::filesystem::path& root = "/");

/// The control groups of this process, from the mount point down to its own group; the limits of
/// all of them apply. On a system with both versions, both lists are filled.
struct Cgroups {
  std::vector<std::filesystem::path> v2;
  std::vector<std::filesystem::path> v1;  // groups of the requested controller
};

/// Reads the groups. `controller` is its name in v1: "memory", "cpu". `root` is "/" outside tests.
Cgroups read_cgroups(const std::filesystem::path& root, std::string_view controller);

}  // namespace trainctl
