#include "base/allocator.hpp"
#include "base/files.hpp"
#include "base/machine.hpp"
#include "base/strings.hpp"
#include "build_info.hpp"
#include "data/libraries.hpp"
#include "doctor.hpp"
#include "engine_library.hpp"
#include "study/allocators.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

namespace trainctl::app {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string text_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

Finding system(const Machine& machine) {
  return {"system", Health::ok,
          fmt::format("{}, Linux {}, host {}", machine.distribution, machine.kernel, machine.host),
          ""};
}

Finding processor(const Machine& machine) {
  const std::string found = fmt::format("{}, {} usable core(s), {}", machine.cpu_model,
                                        machine.cores, fmt::join(machine.cpu_features, " "));
  const bool fast = std::ranges::find(machine.cpu_features, "avx2") != machine.cpu_features.end();
  if (fast) return {"cpu", Health::ok, found, ""};
  return {"cpu", Health::degraded, found + "; no AVX2",
          "matrix kernels run several times slower: use a machine from after 2014"};
}

Finding memory(const Machine& machine) {
  const auto available = static_cast<double>(machine.memory_available_bytes);
  const std::string found = fmt::format("{} of {} are free", human_bytes(available),
                                        human_bytes(static_cast<double>(machine.memory_bytes)));
  if (available >= 2 * kGiB) return {"memory", Health::ok, found, ""};
  return {"memory", Health::degraded, found,
          "a worker needs about 1 GiB for libtorch: end other programs, or raise the container's "
          "limit"};
}

Finding disk() {
  std::error_code failure;
  const fs::path here = fs::current_path(failure);
  const fs::space_info space = fs::space(here, failure);
  if (failure)
    return {"disk", Health::degraded, "the current folder cannot be examined",
            "run in another folder, or give --out DIR"};
  const auto free = static_cast<double>(space.available);
  const std::string found =
      fmt::format("{} are free in {}", human_bytes(free), printable(here.string()));
  if (::access(here.c_str(), W_OK) != 0) {
    return {"disk", Health::degraded, found + ", which cannot be written",
            "runs are written below the current folder: give --out DIR"};
  }
  if (free < kGiB)
    return {"disk", Health::degraded, found, "make room, or give --out DIR on another disk"};
  return {"disk", Health::ok, found, ""};
}

Finding limits() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const std::string found = fmt::format("{} open files", files.rlim_cur);
  if (files.rlim_cur >= 1024) return {"limits", Health::ok, found, ""};
  return {"limits", Health::degraded, found, "raise it: ulimit -n 4096"};
}

Finding engine() {
  const char* const kernels = kBuildInfo.has_kernels ? "with" : "without";
  if (const auto library = find_engine_library())
    return {"engine", Health::ok, fmt::format("{}, {} GPU kernels", library->string(), kernels),
            ""};
  const std::string cure =
      kBuildInfo.has_engine
          ? "build it: cmake --build --preset release"
          : "this build leaves it out: configure with -DTRAINCTL_ENGINE=ON and build";
  return {"engine", Health::broken,
          "libtrainctl_engine.so was not found beside " + executable_path().string(), cure};
}

// "2.11.0+cu130" from torch/version.py.
std::string torch_version(const fs::path& root) {
  std::ifstream in(root / "version.py");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("__version__")) continue;
    const std::size_t first = line.find('\'');
    const std::size_t last = line.rfind('\'');
    if (first != std::string::npos && last > first) return line.substr(first + 1, last - first - 1);
  }
  return "";
}

Finding torch() {
  const std::string asked = text_of("TRAINCTL_TORCH_ROOT");
  const fs::path root =
      !asked.empty() ? fs::path(asked) : fs::path(kBuildInfo.torch_lib).parent_path();
  const std::string source = !asked.empty() ? "TRAINCTL_TORCH_ROOT" : "as at build time";
  const std::string cure =
      "run scripts/setup, or set TRAINCTL_TORCH_ROOT to the 'torch' folder of torch 2.11";
  if (root.empty()) return {"libtorch", Health::broken, "this build does not know any", cure};
  std::error_code ignored;
  if (!fs::exists(root / "lib" / "libtorch_cpu.so", ignored)) {
    return {"libtorch", Health::broken,
            fmt::format("there is none in {} ({})", printable(root.string()), source), cure};
  }
  const std::string version = torch_version(root);
  const std::string found = fmt::format("{} in {} ({})", version, printable(root.string()), source);
  if (version.starts_with("2.11.")) return {"libtorch", Health::ok, found, ""};
  return {"libtorch", Health::broken, found, "trainctl needs torch 2.11: " + cure};
}

Finding gpu(const Machine& machine) {
  const std::string driver = first_line("/proc/driver/nvidia/version");
  if (machine.gpus.empty() && driver.empty())
    return {"gpu", Health::ok, "none; training uses the CPU", ""};
  if (driver.empty())
    return {"gpu", Health::degraded, "devices, but no NVIDIA driver",
            "install the driver, or start the container with --gpus all"};
  if (machine.gpus.empty())
    return {"gpu", Health::degraded, "a driver, but no device: " + printable(driver),
            "start the container with --gpus all"};
  const std::string found = fmt::format("{} device(s); {}", machine.gpus.size(), printable(driver));
  if (kBuildInfo.has_engine && !kBuildInfo.has_kernels)
    return {"gpu", Health::degraded, found + "; no kernels",
            "batches are made in more steps and dataset.cache.mode: device is not there: put nvcc "
            "of CUDA 13 on PATH, remove build/, and build"};
  return {"gpu", Health::ok, found, ""};
}

Finding threads() {
  const std::string policy = text_of("OMP_WAIT_POLICY");
  const std::string count = text_of("OMP_NUM_THREADS");
  const std::string found = fmt::format("OMP_WAIT_POLICY {}, OMP_NUM_THREADS {}",
                                        policy.empty() ? "unset" : printable(policy),
                                        count.empty() ? "unset" : printable(count));
  std::string lower = policy;
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  if (lower != "active") return {"threads", Health::ok, found, ""};
  return {
      "threads", Health::degraded, found,
      "threads that spin without end slow others, and themselves, down many times where cores are "
      "shared: unset OMP_WAIT_POLICY"};
}

/// What trainer.allocator may name here.
Finding allocators() {
  std::string found = "system";
  std::string missing;
  for (const study::AllocatorLibrary& library : study::allocator_libraries()) {
    if (find_shared_library(library.file)) {
      found += fmt::format(", {}", library.name);
    } else {
      missing += fmt::format("{}{} (Debian: {})", missing.empty() ? "" : ", ", library.name,
                             library.package);
    }
  }
  if (!missing.empty()) found += "; not installed: " + missing;
  return {"allocator", Health::ok, found, ""};
}

Finding data_root() {
  const std::string root = text_of("TRAINCTL_DATA");
  if (root.empty())
    return {"data", Health::ok, "TRAINCTL_DATA is unset: configs look in data/", ""};
  std::error_code ignored;
  if (fs::is_directory(root, ignored))
    return {"data", Health::ok, printable(root) + " (TRAINCTL_DATA)", ""};
  return {"data", Health::degraded,
          fmt::format("TRAINCTL_DATA names {}, which is no folder", printable(root)),
          "correct or unset it"};
}

std::string versions_text(const std::vector<data::Library>& libraries) {
  std::vector<std::string> texts;
  for (const data::Library& one : libraries) texts.push_back(one.name + " " + one.version);
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// What is loaded only for some data: without it the other data are read all the same.
Finding on_need(const data::Library& library) {
  struct Use {
    const char* name;
    const char* reads;
    const char* cure;
  };
  constexpr std::array<Use, 3> kUses{
      {{"opencv", "WebP, BMP and TIFF", "install OpenCV (scripts/setup) and build again"},
       {"arrow", "Parquet", "run scripts/setup --arrow and build again"},
       {"libcurl", "http and s3 paths", "install libcurl (Debian: libcurl4)"}}};
  const auto* use = std::ranges::find(kUses, library.name, &Use::name);
  const char* reads = use == kUses.end() ? "some data" : use->reads;
  if (!library.version.empty())
    return {library.name, Health::ok, fmt::format("{}, for {}", library.version, reads), ""};
  return {library.name, Health::ok,
          fmt::format("none, so {} cannot be read: {}", reads, printable(library.cause)),
          use == kUses.end() ? "" : use->cure};
}

/// "always [madvise] never": the word in brackets.
std::string huge_pages() {
  const std::string line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t begin = line.find('[');
  const std::size_t end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "unknown";
  return line.substr(begin + 1, end - begin - 1);
}

Finding reading() {
  const std::string pages = huge_pages();
  const std::string found =
      fmt::format("io_uring {}, huge pages: {}",
                  data::reads_through_uring() ? "is allowed"
                                              : "is refused or not built in: threads read instead",
                  pages);
  if (pages != "never") return {"reading", Health::ok, found, ""};
  return {"reading", Health::degraded, found,
          "batches and caches lie on small pages: write madvise to "
          "/sys/kernel/mm/transparent_hugepage/enabled"};
}

}  // namespace

std::vector<Finding> examine() {
  const Machine machine = read_machine();
  std::vector<Finding> all{system(machine), processor(machine), memory(machine), disk(),
                           limits(),        engine(),           torch(),         gpu(machine),
                           threads(),       allocators(),       data_root()};
  all.push_back({"images", Health::ok, versions_text(data::linked_libraries()), ""});
  for (const data::Library& library : data::loaded_libraries()) all.push_back(on_need(library));
  all.push_back(reading());
  return all;
}

}  // namespace trainctl::app
