#include "study/preflight/machine_examination.hpp"

#include "base/machine/allocator.hpp"
#include "base/machine/environment.hpp"
#include "base/machine/gpus.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/procfs.hpp"
#include "base/strings.hpp"
#include "data/inspect/libraries.hpp"
#include "study/sweep/ledger.hpp"
#include "study/workers/worker_launch.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>

namespace trainctl::study {
namespace {

using report::MachineReadings;

constexpr std::size_t kLongestLine = 1 << 16;
constexpr int kMostLines = 1 << 16;

std::vector<std::string> lines_in(const fs::path& file) {
  std::vector<std::string> lines;
  if (is_folder(file)) return lines;
  std::ifstream in(file);
  std::string line;
  while (std::ssize(lines) < kMostLines && std::getline(in, line)) {
    line.resize(std::min(line.size(), kLongestLine));
    lines.push_back(line);
  }
  return lines;
}

std::string first_in(const fs::path& file) {
  const std::vector<std::string> lines = lines_in(file);
  return lines.empty() ? std::string() : lines.front();
}

template <class Number>
std::optional<Number> number_of(const std::string& text) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end != text.data() ? std::optional(value) : std::nullopt;
}

/// Returns the number after `key` in lines such as "MemTotal:  12 kB" and "nr_throttled 3".
std::optional<std::uint64_t> value_in(const fs::path& file, const std::string& key) {
  for (const std::string& line : lines_in(file)) {
    if (!line.starts_with(key)) continue;
    const std::size_t at = line.find_first_of("0123456789", key.size());
    return at == std::string::npos ? std::nullopt : number_of<std::uint64_t>(line.substr(at));
  }
  return std::nullopt;
}

void read_cores(const fs::path& root, MachineReadings& readings) {
  const fs::path cpus = root / "sys/devices/system/cpu";
  for (const fs::path& cpu : paths_in(cpus)) {
    const std::string governor = first_in(cpu / "cpufreq/scaling_governor");
    if (!governor.empty()) ++readings.governors[governor];
  }
  if (const auto off = number_of<int>(first_in(cpus / "intel_pstate/no_turbo")))
    readings.turbo = *off == 0;
  else if (const auto boost = number_of<int>(first_in(cpus / "cpufreq/boost")))
    readings.turbo = *boost == 1;
  readings.cores = static_cast<int>(allowed_cores().size());
  const double quota = cpu_quota(root);
  if (std::isfinite(quota)) readings.cpu_quota = quota;
  const Cgroups groups = read_cgroups(root, "cpu");
  for (const auto* list : {&groups.v2, &groups.v1}) {
    for (const fs::path& group : *list)
      readings.throttled =
          std::max(readings.throttled, value_in(group / "cpu.stat", "nr_throttled").value_or(0));
  }
  readings.pressure = cpu_pressure(root);
  for (const std::string& line : lines_in(root / "proc/cpuinfo")) {
    if (!line.starts_with("flags") || !readings.cpu_flags.empty()) continue;
    std::istringstream flags(line.substr(line.find(':') + 1));
    for (std::string flag; flags >> flag;) readings.cpu_flags.push_back(flag);
  }
}

std::optional<std::uint64_t> lowest_limit(const fs::path& root) {
  std::optional<std::uint64_t> lowest;
  const Cgroups groups = read_cgroups(root, "memory");
  const auto take = [&](const fs::path& file) {
    const auto limit = number_of<std::uint64_t>(first_in(file));
    if (limit && *limit < (std::uint64_t{1} << 60) && (!lowest || *limit < *lowest)) lowest = limit;
  };
  for (const fs::path& group : groups.v2) take(group / "memory.max");
  for (const fs::path& group : groups.v1) take(group / "memory.limit_in_bytes");
  return lowest;
}

void read_memory(const fs::path& root, MachineReadings& readings) {
  const fs::path info = root / "proc/meminfo";
  const auto kib = [&](const char* key) { return value_in(info, key).value_or(0) * 1024; };
  readings.memory_total = kib("MemTotal:");
  readings.memory_available = available_memory(root);
  const std::uint64_t swap = kib("SwapTotal:");
  readings.swap_used = swap - std::min(swap, kib("SwapFree:"));
  readings.memory_limit = lowest_limit(root);
  const std::string pages = first_in(root / "sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t begin = pages.find('[');
  const std::size_t end = pages.find(']', begin == std::string::npos ? 0 : begin);
  if (begin != std::string::npos && end != std::string::npos)
    readings.huge_pages = pages.substr(begin + 1, end - begin - 1);
}

/// Returns the soft and hard limit of a line such as "Max open files  1024  4096  files".
std::array<std::optional<std::uint64_t>, 2> limits_of(const fs::path& file,
                                                      const std::string& name) {
  for (const std::string& line : lines_in(file)) {
    if (!line.starts_with(name)) continue;
    std::istringstream in(line.substr(name.size()));
    std::string soft;
    std::string hard;
    in >> soft >> hard;
    return {number_of<std::uint64_t>(soft), number_of<std::uint64_t>(hard)};
  }
  return {};
}

void read_limits(const fs::path& root, MachineReadings& readings) {
  const fs::path file = root / "proc/self/limits";
  const auto files = limits_of(file, "Max open files");
  readings.open_files = files[0];
  readings.open_files_hard = files[1];
  readings.locked_bytes = limits_of(file, "Max locked memory")[0];
  readings.has_infiniband = !paths_in(root / "sys/class/infiniband").empty();
  for (const char* name : {"OMP_WAIT_POLICY", "OMP_NUM_THREADS", "OMP_PROC_BIND", "GOMP_SPINCOUNT",
                           "GOMP_CPU_AFFINITY", "MKL_NUM_THREADS"}) {
    if (const char* value = std::getenv(name)) readings.environment[name] = value;
  }
}

struct Mount {
  std::string point;
  std::string type;
  std::string numbers;  // "259:1"
  std::string options;
};

/// Parses lines such as "36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/x rw"; the field after
/// the hyphen is the type.
std::vector<Mount> mounts_of(const fs::path& root) {
  std::vector<Mount> mounts;
  for (const std::string& line : lines_in(root / "proc/self/mountinfo")) {
    const std::size_t hyphen = line.find(" - ");
    if (hyphen == std::string::npos) continue;
    const std::vector<std::string> left = split(line.substr(0, hyphen), ' ');
    const std::vector<std::string> right = split(line.substr(hyphen + 3), ' ');
    if (left.size() < 6 || right.size() < 3) continue;
    mounts.push_back({left[4], right[0], left[2], right[2]});
  }
  return mounts;
}

bool lies_below(const std::string& path, const std::string& point) {
  return point == "/" || path == point || path.starts_with(point + "/");
}

void read_disk(const ReadingsRequest& request, const std::vector<Mount>& mounts,
               report::DiskReading& disk) {
  std::error_code failure;
  const fs::path path = request.disk.empty() ? fs::current_path(failure) : request.disk;
  disk.path = path.string();
  const Mount* mount = nullptr;
  for (const Mount& one : mounts) {  // a later mount on the same point hides earlier ones
    if (lies_below(disk.path, one.point) &&
        (mount == nullptr || one.point.size() >= mount->point.size()))
      mount = &one;
  }
  const fs::space_info space = fs::space(path, failure);
  if (!failure) disk.free_bytes = space.available;
  if (!failure) disk.writable = ::access(path.c_str(), W_OK) == 0;
  if (mount == nullptr) return;
  disk.type = mount->type;
  const fs::path block = request.root / "sys/dev/block" / mount->numbers;
  const fs::path real = fs::canonical(block, failure);
  if (failure) return;
  disk.device = real.filename().string();
  for (const fs::path& queue : {real / "queue", real.parent_path() / "queue"}) {
    if (const auto turns = number_of<int>(first_in(queue / "rotational"))) {
      disk.rotational = *turns == 1;
      return;
    }
  }
}

/// Returns the size from the mount option "size=65536k", or else from the file system.
std::optional<std::uint64_t> shared_memory(const fs::path& root, const std::vector<Mount>& mounts) {
  for (const Mount& mount : mounts) {
    if (mount.point != "/dev/shm") continue;
    for (const std::string& option : split(mount.options, ',')) {
      if (!option.starts_with("size=")) continue;
      const auto size = number_of<std::uint64_t>(option.substr(5));
      if (!size) continue;
      const std::uint64_t unit = option.ends_with('k') ? 1 << 10 : 1;
      return *size <= std::numeric_limits<std::uint64_t>::max() / unit ? *size * unit
                                                                       : std::uint64_t{0};
    }
  }
  struct statvfs info {};
  if (::statvfs((root / "dev/shm").c_str(), &info) != 0) return std::nullopt;
  return std::uint64_t{info.f_blocks} * info.f_frsize;
}

bool is_nvidia_gpu(const fs::path& device) {
  return first_in(device / "vendor") == "0x10de" && first_in(device / "class").starts_with("0x03");
}

void read_gpus(const ReadingsRequest& request, MachineReadings& readings) {
  for (const fs::path& device : paths_in(request.root / "sys/bus/pci/devices")) {
    if (!is_nvidia_gpu(device)) continue;
    const auto speed = [&](const char* file) {  // "16.0 GT/s PCIe"
      return number_of<double>(first_in(device / file)).value_or(0);
    };
    const auto width = [&](const char* file) {
      return number_of<int>(first_in(device / file)).value_or(0);
    };
    readings.gpus.push_back({device.filename().string(), speed("current_link_speed"),
                             speed("max_link_speed"), width("current_link_width"),
                             width("max_link_width")});
  }
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  ..."
  std::istringstream words(first_in(request.root / "proc/driver/nvidia/version"));
  for (std::string word; words >> word;) {
    const bool is_version = std::ranges::count(word, '.') >= 1 &&
                            word.find_first_not_of("0123456789.") == std::string::npos;
    if (!is_version) continue;
    readings.kernel_driver = word;
    break;
  }
  if (request.nvml == nullptr) return;
  readings.library_driver = request.nvml->driver();
  readings.driver_mismatch = request.nvml->mismatches();
  readings.cuda = request.nvml->cuda();
  for (const GpuState& gpu : request.nvml->gpus()) readings.nvlinks += gpu.nvlinks;
}

constexpr std::size_t kWords = std::size_t{4} << 20;  // 32 MiB: larger than most caches
constexpr std::uint64_t kFactor = 6364136223846793005ULL;

/// Computes dependent products, then reads through memory.
std::uint64_t work(std::vector<std::uint64_t>& memory, std::int64_t rounds) {
  std::uint64_t state = memory.front();
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (int j = 0; j < 1'000'000; ++j) state = state * kFactor + 1;
    for (std::uint64_t& word : memory) word += state;
  }
  return state;
}

using report::Grade;
using report::grade_line;
using report::GradeLine;

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
  const char* const kernels = program.engine_with_cuda && program.has_kernels ? "with" : "without";
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
  const std::string from_env = environment_value("TRAINCTL_TORCH_ROOT");
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
  const std::string root = environment_value("TRAINCTL_DATA");
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
  constexpr std::array<Use, 4> kUses{
      {{"opencv", "WebP, BMP and TIFF", "install OpenCV (scripts/setup) and build again"},
       {"arrow", "Parquet", "run scripts/setup --arrow and build again"},
       {"sentencepiece", "SentencePiece models",
        "install libsentencepiece-dev (scripts/setup) and build again"},
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

MachineReadings read_machine_state(const ReadingsRequest& request) {
  MachineReadings readings;
  read_cores(request.root, readings);
  read_memory(request.root, readings);
  read_limits(request.root, readings);
  const std::vector<Mount> mounts = mounts_of(request.root);
  read_disk(request, mounts, readings.disk);
  readings.shm_bytes = shared_memory(request.root, mounts);
  read_gpus(request, readings);
  return readings;
}

std::vector<double> probe_noise(const NoiseProbe& probe, const Clock& clock) {
  std::vector<std::uint64_t> memory(kWords, 1);
  const auto timed = [&](std::int64_t rounds) {
    const double begun = clock.now();
    memory.front() ^= work(memory, rounds);
    return clock.now() - begun;
  };
  timed(1);
  const double once = std::max(timed(1), 1e-6);
  const double each = probe.seconds / std::max(probe.repeats, 1);
  const auto rounds = static_cast<std::int64_t>(std::clamp(each / once, 1.0, 1e6));
  timed(rounds);
  std::vector<double> seconds;
  for (int i = 0; i < probe.repeats; ++i) seconds.push_back(timed(rounds));
  return seconds;
}

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
