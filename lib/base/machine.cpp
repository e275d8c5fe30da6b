#include "base/machine.hpp"

#include "base/gpus.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

namespace trainctl {
namespace {

namespace fs = std::filesystem;
constexpr const char* kCgroupRoot = "/sys/fs/cgroup";

// The value of the first "key: value" or "key=value" line in a file of /proc or /etc.
std::string value_of(const char* file, const std::string& key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos || !line.starts_with(key)) continue;
    const std::size_t first = line.find_first_not_of(" \t\"", at + 1);
    if (first == std::string::npos) return {};
    return line.substr(first, line.find_last_not_of(" \t\"") - first + 1);
  }
  return {};
}

std::uint64_t meminfo(const std::string& key) {
  std::istringstream text(value_of("/proc/meminfo", key, ':'));
  std::uint64_t kib = 0;
  text >> kib;
  return kib * 1024;
}

fs::path cgroup_folder() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::"))
      return fs::path(kCgroupRoot) / fs::path(line.substr(3)).relative_path();
  }
  return kCgroupRoot;
}

double cgroup_cores() {
  std::ifstream in(cgroup_folder() / "cpu.max");
  double quota = 0;
  double period = 0;
  if (in >> quota >> period && period > 0) return quota / period;
  return std::numeric_limits<double>::infinity();
}

std::vector<std::string> speed_features() {
  constexpr std::array kWanted{"sse4_2", "avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"};
  std::istringstream flags(value_of("/proc/cpuinfo", "flags", ':'));
  std::vector<std::string> found;
  for (std::string flag; flags >> flag;) {
    if (std::ranges::find(kWanted, flag) != kWanted.end()) found.push_back(flag);
  }
  return found;
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool known = ::sched_getaffinity(0, sizeof set, &set) == 0;
  const int allowed = known ? CPU_COUNT(&set) : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return std::max(
      1, static_cast<int>(std::min(std::ceil(cgroup_cores()), static_cast<double>(allowed))));
}

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
  machine.memory_bytes = meminfo("MemTotal");
  machine.memory_available_bytes = available_memory();
  machine.gpus = visible_gpus(present_gpus(), std::getenv("CUDA_VISIBLE_DEVICES"));
  return machine;
}

}  // namespace trainctl
