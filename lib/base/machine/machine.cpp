#include "base/machine/machine.hpp"

#include "base/machine/gpus.hpp"
#include "base/strings.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

namespace trainctl {
namespace {

// Returns the value of the first "key: value" or "key=value" line in a file of /proc or /etc.
std::string value_of(const char* file, const std::string& key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos || !line.starts_with(key)) continue;
    return std::string(trimmed(std::string_view(line).substr(at + 1), " \t\""));
  }
  return {};
}

std::vector<std::string> speed_features() {
  constexpr std::array kWanted{"sse4_2",      "avx2",     "fma",         "avx512f",
                               "avx512_bf16", "amx_bf16", "avx512_fp16", "amx_fp16"};
  std::istringstream flags(value_of("/proc/cpuinfo", "flags", ':'));
  std::vector<std::string> found;
  for (std::string flag; flags >> flag;) {
    if (std::ranges::find(kWanted, flag) != kWanted.end()) found.push_back(flag);
  }
  return found;
}

namespace fs = std::filesystem;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double share(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : kUnlimited;
}

// The file contains "200000 100000", or "max 100000" without a limit.
double quota_v2(const fs::path& group) {
  std::ifstream in(group / "cpu.max");
  double quota = 0;
  double period = 0;
  return in >> quota >> period ? share(quota, period) : kUnlimited;
}

// Each file contains one number; a quota of -1 means no limit.
double quota_v1(const fs::path& group) {
  double quota = 0;
  double period = 0;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  return share(quota, period);
}

constexpr std::uint64_t kNoMemoryLimit = std::numeric_limits<std::uint64_t>::max();
// Control groups v1 report "no limit" as the largest multiple of the page size.
constexpr std::uint64_t kNoLimitV1 = std::uint64_t{1} << 60;

/// Returns the number after `key` in a file of "key value" lines, or the first number of the file
/// if the key is empty.
std::optional<std::uint64_t> read_number(const fs::path& file, const std::string& key = {}) {
  std::ifstream in(file);
  for (std::string word; word != key;) {
    if (!(in >> word)) return std::nullopt;
  }
  std::uint64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // page cache that counts as used but can be reclaimed
};
constexpr GroupFiles kV2{"memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

std::uint64_t limit_of(const fs::path& group, const GroupFiles& files) {
  const auto limit = read_number(group / files.limit);
  return limit && *limit < kNoLimitV1 ? *limit : kNoMemoryLimit;
}

std::uint64_t left_in(const fs::path& group, const GroupFiles& files) {
  const std::uint64_t limit = limit_of(group, files);
  if (limit == kNoMemoryLimit) return limit;
  const std::uint64_t used = read_number(group / files.usage).value_or(0);
  const std::uint64_t cache = read_number(group / "memory.stat", files.reclaimable).value_or(0);
  const std::uint64_t held = used - std::min(cache, used);
  return limit - std::min(held, limit);
}

std::vector<fs::path> folders_down_to(const fs::path& mount, const std::string& path) {
  std::vector<fs::path> folders{mount};
  for (const fs::path& part : fs::path(path).relative_path())
    folders.push_back(folders.back() / part);
  return folders;
}

}  // namespace

Machine read_machine() {
  Machine machine;
  utsname names{};
  if (::uname(&names) == 0) {
    machine.host = names.nodename;
    machine.kernel = names.release;
  }
  machine.distribution = value_of("/etc/os-release", "PRETTY_NAME", '=');
  machine.cpu_model = value_of("/proc/cpuinfo", "model name", ':');
  machine.cpu_features = speed_features();
  machine.cores = usable_cores();
  machine.memory_bytes = read_number("/proc/meminfo", "MemTotal:").value_or(0) * 1024;
  machine.memory_available_bytes = available_memory();
  const std::vector<Gpu> present = present_gpus();
  machine.gpus = visible_gpus(present, std::getenv("CUDA_VISIBLE_DEVICES"));
  machine.gpu_models = gpu_models(present, machine.gpus);
  return machine;
}

double cpu_quota(const fs::path& root) {
  const Cgroups groups = read_cgroups(root, "cpu");
  double least = kUnlimited;
  for (const fs::path& group : groups.v2) least = std::min(least, quota_v2(group));
  for (const fs::path& group : groups.v1) least = std::min(least, quota_v1(group));
  return least;
}

double cpu_pressure(const fs::path& root) {
  std::ifstream in(root / "proc/pressure/cpu");  // "some avg10=3.97 avg60=5.78 ..."
  std::string some, average;
  constexpr std::string_view kName = "avg10=";
  if (!(in >> some >> average) || some != "some" || !average.starts_with(kName)) return 0;
  return std::strtod(average.c_str() + kName.size(), nullptr);
}

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

int usable_cores() {
  const std::vector<int> known = allowed_cores();
  const auto allowed = known.empty() ? static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN))
                                     : static_cast<double>(known.size());
  return std::max(1, static_cast<int>(std::min(std::ceil(cpu_quota()), allowed)));
}

int cores_of_rank(int ranks) {
  const char* value = std::getenv(kCoresVariable);
  const long cores = value == nullptr ? 0 : std::strtol(value, nullptr, 10);
  constexpr long kMostCores = 1 << 16;
  if (cores > 0 && cores <= kMostCores) return static_cast<int>(cores);
  const bool has_own = std::getenv(kOwnCores) != nullptr;
  return has_own ? usable_cores() : std::max(usable_cores() / std::max(1, ranks), 1);
}

std::uint64_t memory_limit(const fs::path& root) {
  const auto all_kib = read_number(root / "proc/meminfo", "MemTotal:");
  std::uint64_t least = all_kib ? *all_kib * 1024 : kNoMemoryLimit;
  const Cgroups groups = read_cgroups(root, "memory");
  for (const fs::path& group : groups.v2) least = std::min(least, limit_of(group, kV2));
  for (const fs::path& group : groups.v1) least = std::min(least, limit_of(group, kV1));
  return least == kNoMemoryLimit ? 0 : least;
}

std::uint64_t available_memory(const fs::path& root) {
  const auto free_kib = read_number(root / "proc/meminfo", "MemAvailable:");
  std::uint64_t least = free_kib ? *free_kib * 1024 : kNoMemoryLimit;
  const Cgroups groups = read_cgroups(root, "memory");
  for (const fs::path& group : groups.v2) least = std::min(least, left_in(group, kV2));
  for (const fs::path& group : groups.v1) least = std::min(least, left_in(group, kV1));
  return least;
}

Cgroups read_cgroups(const fs::path& root, std::string_view controller) {
  Cgroups found;
  const fs::path mount = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" is v2; "4:cpu,cpuacct:/path" is v1.
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (names.empty()) found.v2 = folders_down_to(mount, path);
    const std::vector<std::string> controllers = split(names, ',');
    if (std::ranges::find(controllers, controller) != controllers.end())
      found.v1 = folders_down_to(mount / controller, path);
  }
  return found;
}

}  // namespace trainctl
