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
  std::vector<std::string>
      cpu_features;  // those that decide speed: avx2, fma, avx512f, avx512_bf16, amx_bf16, ...
  int cores = 0;     // that this process may use
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
/// Cores for one of `ranks` processes of a run on this machine, at least 1: what its supervisor has
/// told it, all it may use where these are its own, else its share of the usable ones.
int cores_of_rank(int ranks);
/// Percent of the last 10 seconds in which some thread of the machine waited for a core; 0 where
/// the kernel does not tell (https://docs.kernel.org/accounting/psi.html). `root` stands for "/" in
/// tests.
double cpu_pressure(const std::filesystem::path& root = "/");
/// The cores that its affinity allows, by number.
std::vector<int> allowed_cores();
/// Cores that the quotas of the control groups (v1 or v2) leave, a part of one included; infinity
/// where there is none. `root` is "/" outside tests.
double cpu_quota(const std::filesystem::path& root = "/");

/// Bytes that may still be allocated: MemAvailable, or less where a cgroup (v1 or v2) limits it;
/// page cache that would give way counts as free. `root` is "/" outside tests.
std::uint64_t available_memory(const std::filesystem::path& root = "/");
/// All that this process could ever have: the machine's memory, or less where a cgroup (v1 or v2)
/// limits it; 0 where the kernel tells neither.
std::uint64_t memory_limit(const std::filesystem::path& root = "/");

/// The control groups that this process lies in, from the mount point down to its own: a limit of
/// any of them binds it. Where a system has both versions, both lists are filled.
struct Cgroups {
  std::vector<std::filesystem::path> v2;
  std::vector<std::filesystem::path> v1;  // of the controller that was asked for
};

/// `controller` is that of version 1: "memory", "cpu". `root` is "/" outside tests.
Cgroups read_cgroups(const std::filesystem::path& root, std::string_view controller);

}  // namespace trainctl
