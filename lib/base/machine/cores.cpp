#include "base/machine/cgroup.hpp"
#include "base/machine/machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace trainctl {
namespace {

namespace fs = std::filesystem;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double share(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : kUnlimited;
}

// "200000 100000", or "max 100000" where nothing is limited.
double quota_v2(const fs::path& group) {
  std::ifstream in(group / "cpu.max");
  double quota = 0;
  double period = 0;
  return in >> quota >> period ? share(quota, period) : kUnlimited;
}

// One number a file; a quota of -1 limits nothing.
double quota_v1(const fs::path& group) {
  double quota = 0;
  double period = 0;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  return share(quota, period);
}

}  // namespace

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
  const char* told = std::getenv(kCoresVariable);
  const long cores = told == nullptr ? 0 : std::strtol(told, nullptr, 10);
  constexpr long kMostCores = 1 << 16;
  if (cores > 0 && cores <= kMostCores) return static_cast<int>(cores);
  const bool has_own = std::getenv(kOwnCores) != nullptr;
  return has_own ? usable_cores() : std::max(usable_cores() / std::max(1, ranks), 1);
}

}  // namespace trainctl
