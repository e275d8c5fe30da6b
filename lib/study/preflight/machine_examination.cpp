#include "study/preflight/machine_examination.hpp"

#include "base/machine/allocator.hpp"
#include "base/machine/gpus.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/procfs.hpp"
#include "base/strings.hpp"
#include "data/inspect/libraries.hpp"
#include "report/diagnosis/machine_grade.hpp"
#include "study/preflight/machine_readings.hpp"
#include "study/sweep/ledger.hpp"
#include "study/workers/worker_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

using report::Grade;
using report::grade_line;
using report::GradeLine;

std::string variable_text(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

GradeLine system(const Machine& machine) {
  return grade_line(
      "system", Grade::ok,
      fmt::format("{}, Linux {}, host {}", machine.distribution, machine.kernel, machine.host));
}

GradeLine processor(const Machine& machine) {
  return grade_line("cpu", Grade::ok,
                    fmt::format("{}, {} usable core(s)", machine.cpu_model, machine.cores));
}

GradeLine engine(const ProgramParts& program) {
  const char* const kernels = program.has_kernels ? "with" : "without";
  if (program.engine)
    return grade_line("engine", Grade::ok,
                      fmt::format("{}, {} GPU kernels", program.engine->string(), kernels));
  const std::string hint = program.has_engine ? "run cmake --build --preset release"
                                              : "configure with -DTRAINCTL_ENGINE=ON and build; "
                                                "this build excludes the training engine";
  return grade_line("engine", Grade::broken,
                    "libtrainctl_engine.so was not found next to " + program.executable.string(),
                    "", hint);
}

// Returns the version in torch/version.py, such as "2.11.0+cu130".
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

GradeLine torch(const ProgramParts& program) {
  const std::string from_env = variable_text("TRAINCTL_TORCH_ROOT");
  const fs::path root = !from_env.empty() ? fs::path(from_env) : program.torch_lib.parent_path();
  const std::string source = !from_env.empty() ? "TRAINCTL_TORCH_ROOT" : "set at build time";
  const std::string hint =
      "run scripts/setup, or set TRAINCTL_TORCH_ROOT to the 'torch' folder of torch 2.11";
  if (root.empty())
    return grade_line("libtorch", Grade::broken, "its folder was not set at build time", "", hint);
  if (!path_exists(root / "lib" / "libtorch_cpu.so")) {
    return grade_line("libtorch", Grade::broken,
                      fmt::format("not found in {} ({})", printable(root.string()), source), "",
                      hint);
  }
  const std::string version = torch_version(root);
  const std::string found = fmt::format("{} in {} ({})", version, printable(root.string()), source);
  if (version.starts_with("2.11.")) return grade_line("libtorch", Grade::ok, found);
  return grade_line("libtorch", Grade::broken, found + ", but trainctl needs 2.11", "", hint);
}

GradeLine gpu(const Machine& machine, const ProgramParts& program) {
  const std::string driver = first_line_of("/proc/driver/nvidia/version");
  if (machine.gpus.empty() && driver.empty())
    return grade_line("gpu", Grade::ok, "none; training uses the CPU");
  if (driver.empty())
    return grade_line("gpu", Grade::degraded, "NVIDIA devices, but no driver", "",
                      "install the driver, or start the container with --gpus all");
  if (machine.gpus.empty())
    return grade_line("gpu", Grade::degraded, "driver, but no device: " + printable(driver), "",
                      "start the container with --gpus all");
  const std::string found = fmt::format("{} device(s); {}", machine.gpus.size(), printable(driver));
  if (program.has_engine && !program.has_kernels)
    return grade_line(
        "gpu", Grade::degraded, found + "; no GPU kernels in this build",
        "batches need more GPU operations, and dataset.cache.mode=device is unavailable",
        "put nvcc of CUDA 13 on PATH, remove build/, and build");
  return grade_line("gpu", Grade::ok, found);
}

/// Lists the values of trainer.allocator that are available on this machine.
GradeLine allocators() {
  std::string found = "system";
  std::string missing;
  for (const AllocatorLibrary& library : allocator_libraries()) {
    if (find_shared_library(library.file)) {
      found += fmt::format(", {}", library.name);
    } else {
      missing += fmt::format("{}{} (Debian: {})", missing.empty() ? "" : ", ", library.name,
                             library.package);
    }
  }
  if (!missing.empty()) found += "; not installed: " + missing;
  return grade_line("allocator", Grade::ok, found);
}

GradeLine data_root() {
  const std::string root = variable_text("TRAINCTL_DATA");
  if (root.empty())
    return grade_line("data", Grade::ok, "TRAINCTL_DATA is not set; configs use data/");
  if (is_folder(root)) return grade_line("data", Grade::ok, printable(root) + " (TRAINCTL_DATA)");
  return grade_line("data", Grade::degraded,
                    fmt::format("TRAINCTL_DATA must be a folder, got {}", printable(root)), "",
                    "correct or unset TRAINCTL_DATA");
}

std::string versions_text(const std::vector<data::Library>& libraries) {
  std::vector<std::string> texts;
  for (const data::Library& one : libraries) texts.push_back(one.name + " " + one.version);
  return join(texts, ", ");
}

/// Checks a library that only some data formats need.
GradeLine optional_library(const data::Library& library) {
  struct Use {
    const char* name;
    const char* reads;
    const char* hint;
  };
  constexpr std::array<Use, 3> kUses{
      {{"opencv", "WebP, BMP and TIFF", "install OpenCV (scripts/setup) and build again"},
       {"arrow", "Parquet", "run scripts/setup --arrow and build again"},
       {"libcurl", "http and s3 paths", "install libcurl (Debian: libcurl4)"}}};
  const auto* use = std::ranges::find(kUses, library.name, &Use::name);
  const char* reads = use == kUses.end() ? "some data" : use->reads;
  if (!library.version.empty())
    return grade_line(library.name, Grade::ok, fmt::format("{}, for {}", library.version, reads));
  return grade_line(
      library.name, Grade::ok,
      fmt::format("not available, so {} cannot be read: {}", reads, printable(library.cause)), "",
      use == kUses.end() ? "" : use->hint);
}

GradeLine file_reading() {
  return grade_line("reading", Grade::ok,
                    data::reads_through_uring()
                        ? "io_uring is available"
                        : "io_uring is not permitted or not built in; threads read instead");
}

/// Checks the properties of the machine that slow training down.
std::vector<GradeLine> grades() {
  const bool has_driver = !first_line_of("/proc/driver/nvidia/version").empty();
  const std::unique_ptr<Nvml> nvml = has_driver ? std::make_unique<Nvml>() : nullptr;
  return report::grade_machine(read_machine_state({.nvml = nvml.get()}));
}

}  // namespace

std::vector<GradeLine> examine_machine(const ProgramParts& program) {
  const Machine machine = read_machine();
  std::vector<GradeLine> all{system(machine), processor(machine),    engine(program),
                             torch(program),  gpu(machine, program), allocators(),
                             data_root()};
  all.push_back(grade_line("images", Grade::ok, versions_text(data::linked_libraries())));
  for (const data::Library& library : data::loaded_libraries())
    all.push_back(optional_library(library));
  all.push_back(file_reading());
  all.push_back(grade_line("sweeps", Grade::ok, fmt::format("SQLite {}", sqlite_version())));
  const std::vector<GradeLine> graded = grades();
  all.insert(all.end(), graded.begin(), graded.end());
  return all;
}

report::GpuFacts examine_gpus(const ProgramParts& program, const launch::GpuProbe& found,
                              std::optional<report::GpuTest> test) {
  report::GpuFacts facts;
  facts.has_engine = program.engine_with_cuda.has_value();
  facts.has_kernels = program.has_kernels;
  facts.device_files = static_cast<int>(present_gpus().size());
  if (const char* list = std::getenv("CUDA_VISIBLE_DEVICES")) facts.visible = list;
  facts.usable = found.count;
  facts.problem = found.problem;
  const Nvml nvml;
  facts.nvml_failure = nvml.failure();
  facts.driver_mismatch = nvml.mismatches();
  facts.driver = nvml.driver();
  facts.cuda = nvml.cuda();
  facts.gpus = nvml.gpus();
  facts.test = std::move(test);
  return facts;
}

}  // namespace trainctl::study
