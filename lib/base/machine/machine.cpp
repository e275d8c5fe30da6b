#include "base/machine/machine.hpp"

#include "base/machine/gpus.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace trainctl {
namespace {

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
  machine.memory_bytes = meminfo("MemTotal");
  machine.memory_available_bytes = available_memory();
  const std::vector<Gpu> present = present_gpus();
  machine.gpus = visible_gpus(present, std::getenv("CUDA_VISIBLE_DEVICES"));
  machine.gpu_models = gpu_models(present, machine.gpus);
  return machine;
}

}  // namespace trainctl
