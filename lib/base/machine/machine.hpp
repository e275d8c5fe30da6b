#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

/// What the machine is, read from /proc and /sys; empty or 0 where the kernel does not tell.
struct Machine {
  std::string host;
  std::string kernel;
  std::string distribution;
  std::string cpu_model;
  std::vector<std::string> cpu_features;  // that decide speed: avx2, fma, avx512f, amx_bf16, ...
  int cores = 0;                          // that this process may use
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::vector<std::string> gpus;  // device files /dev/nvidiaN that CUDA_VISIBLE_DEVICES leaves
  std::vector<std::string> gpu_models = {};  // what the driver calls them
};

Machine read_machine();

/// Number of cores this process may run on: affinity and cgroup CPU quota, at least 1.
int usable_cores();
/// Set for a process that was started on cores of its own, which it shares with no other rank.
inline constexpr const char* kOwnCores = "TRAINCTL_OWN_CORES";
/// Set to the number of cores of a process where its supervisor has only a part of the machine.
inline constexpr const char* kCoresVariable = "TRAINCTL_CORES";
/// Returns the cores for one of `ranks` processes of a run on this machine, at least 1: those that
/// its supervisor set, all usable ones where these are its own, else its share.
int cores_of_rank(int ranks);
/// Returns the percentage of the last 10 seconds in which some thread of the machine waited for a
/// core (https://docs.kernel.org/accounting/psi.html); 0 where it is not known.
double cpu_pressure(const std::filesystem::path& root = "/");
/// The cores that its affinity allows, by number.
std::vector<int> allowed_cores();
/// Returns the cores, also a part of one, that the quotas of the control groups (v1 or v2) leave;
/// infinity where there is none.
double cpu_quota(const std::filesystem::path& root = "/");

/// Returns the bytes that may still be allocated: MemAvailable, or less where a cgroup (v1 or v2)
/// limits it. Page cache that would give way counts as free.
std::uint64_t available_memory(const std::filesystem::path& root = "/");
/// Returns the machine's memory, or less where a cgroup (v1 or v2) limits it; 0 if not known.
std::uint64_t memory_limit(const std::filesystem::path& root = "/");

/// The control groups of this process, from the mount point down to its own: the limits of all of
/// them bind it. Where a system has both versions, both lists are filled.
struct Cgroups {
  std::vector<std::filesystem::path> v2;
  std::vector<std::filesystem::path> v1;  // of the controller that was asked for
};

/// `controller` is that of version 1: "memory", "cpu". `root` is "/" outside tests.
Cgroups read_cgroups(const std::filesystem::path& root, std::string_view controller);

}  // namespace trainctl
