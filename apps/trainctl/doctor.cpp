#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/allocator.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/procfs.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "build_info.hpp"
#include "cli/context.hpp"
#include "cli/engine_library.hpp"
#include "cli/output.hpp"
#include "data/inspect/libraries.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/verdict.hpp"
#include "report/compare/statistics.hpp"
#include "report/diagnosis/machine_grade.hpp"
#include "report/plan/communication_cost.hpp"
#include "study/preflight/machine_readings.hpp"
#include "study/sweep/ledger_database.hpp"
#include "study/workers/worker_launch.hpp"
#include "study/workers/worker_tasks.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::app {
namespace {

/// bad: it costs most of the speed, or may end a run; broken: trainctl cannot train.
enum class Health { ok, degraded, bad, broken };

/// One thing doctor looked at.
struct Finding {
  std::string name;  // "memory"
  Health health = Health::ok;
  std::string found;       // "5.1 GiB of 23.5 GiB are free"
  std::string cure;        // what to do; empty where all is well
  std::string costs = {};  // what it costs as it is; empty where that is plain
};

/// Looks at the program's parts and the machine, without loading libtorch; in half a second, most
/// of which OpenCV takes to load.
std::vector<Finding> examine();

std::string text_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

Finding system(const Machine& machine) {
  return {"system", Health::ok,
          fmt::format("{}, Linux {}, host {}", machine.distribution, machine.kernel, machine.host),
          ""};
}

Finding processor(const Machine& machine) {
  return {"cpu", Health::ok, fmt::format("{}, {} usable core(s)", machine.cpu_model, machine.cores),
          ""};
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
  const std::string driver = first_line_of("/proc/driver/nvidia/version");
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

Finding reading() {
  return {"reading", Health::ok,
          data::reads_through_uring() ? "io_uring is allowed"
                                      : "io_uring is refused or not built in: threads read instead",
          ""};
}

/// What of the machine makes training slow.
std::vector<Finding> grades() {
  const bool has_driver = !first_line_of("/proc/driver/nvidia/version").empty();
  const std::unique_ptr<Nvml> nvml = has_driver ? std::make_unique<Nvml>() : nullptr;
  std::vector<Finding> findings;
  for (const report::GradeLine& line :
       report::grade_machine(study::read_machine_state({.nvml = nvml.get()}))) {
    Health health = Health::ok;
    if (line.grade == report::Grade::degraded) health = Health::degraded;
    if (line.grade == report::Grade::bad) health = Health::bad;
    findings.push_back({line.name, health, line.found, line.fix, line.costs});
  }
  return findings;
}

std::vector<Finding> examine() {
  const Machine machine = read_machine();
  std::vector<Finding> all{system(machine), processor(machine), engine(),   torch(),
                           gpu(machine),    allocators(),       data_root()};
  all.push_back({"images", Health::ok, versions_text(data::linked_libraries()), ""});
  for (const data::Library& library : data::loaded_libraries()) all.push_back(on_need(library));
  all.push_back(reading());
  all.push_back(
      {"sweeps", Health::ok, fmt::format("SQLite {}, for ledgers", study::sqlite_version()), ""});
  const std::vector<Finding> graded = grades();
  all.insert(all.end(), graded.begin(), graded.end());
  return all;
}

struct DoctorFlags {
  bool link = false;
  bool noise = false;
  int devices = 0;  // 0: all GPUs where there are two or more, else two processes
};

constexpr std::array kNames{"ok", "degraded", "bad", "broken"};
constexpr std::array kColors{"32", "33", "31", "1;31"};
constexpr std::array kGrades{"good", "fair", "poor", "unfit"};  // of the whole, by its worst part

Json document(const std::vector<Finding>& findings, Health worst) {
  Json all = Json::array();
  for (const Finding& one : findings) {
    all.push_back({{"name", one.name},
                   {"health", kNames.at(static_cast<std::size_t>(one.health))},
                   {"found", one.found},
                   {"cure", one.cure},
                   {"costs", one.costs}});
  }
  Json libraries = Json::object();
  libraries["SQLite"] = study::sqlite_version();
  for (const data::Library& one : data::linked_libraries()) libraries[one.name] = one.version;
  for (const data::Library& one : data::loaded_libraries())
    libraries[one.name] = one.version.empty() ? Json(nullptr) : Json(one.version);
  return {{"schema", "trainctl.doctor/1"},
          {"version", kBuildInfo.version},
          {"health", kNames.at(static_cast<std::size_t>(worst))},
          {"grade", kGrades.at(static_cast<std::size_t>(worst))},
          {"libraries", libraries},
          {"findings", all}};
}

void print_finding(const Finding& finding, config::Color color) {
  const auto rank = static_cast<std::size_t>(finding.health);
  // What is missing but needed for some data alone has a cure and does not lower the grade.
  const bool is_absent = finding.health == Health::ok && !finding.cure.empty();
  std::string health = fmt::format("{:<9}", is_absent ? "absent" : kNames.at(rank));
  if (color == config::Color::on)
    health = fmt::format("\x1b[{}m{}\x1b[0m", kColors.at(rank), health);
  print(fmt::format("  {} {:<13} {}", health, finding.name, finding.found));
  if (!finding.costs.empty()) print(fmt::format("  {:<23} {}", "", finding.costs));
  if (!finding.cure.empty()) print(fmt::format("  {:<23} -> {}", "", finding.cure));
}

/// What --link found, or why it did not.
struct LinkProbe {
  std::optional<events::LinkMeasured> measured = {};
  std::optional<Error> error = {};
};

/// Processes that compute on the CPU may be more than its cores: slower, but they do measure.
void check_processes(int ranks, const study::LinkPlaces& places, const Context& context) {
  constexpr std::uint64_t kEach = 512 << 20;  // of a process with libtorch and its tensors
  const std::uint64_t most = available_memory() / kEach;
  ENSURE(resource, static_cast<std::uint64_t>(ranks) <= most,
         "{} processes of about {} each do not fit into the {} of memory that are available: write "
         "--devices {} or less",
         ranks, human_bytes(static_cast<double>(kEach)),
         human_bytes(static_cast<double>(available_memory())), most);
  if (ranks > places.cores && !context.quiet)
    writer_for(stderr)(fmt::format(
        "warning: {} processes share {} core{}, so that the link looks slower than it is\n", ranks,
        places.cores, plural(places.cores)));
}

/// GPUs where there are so many, else processes that compute on the CPU.
events::LinkMeasured measure(const DoctorFlags& flags, const Context& context) {
  ENSURE(resource, find_engine_library().has_value(),
         "--link needs the engine, which this build does not have; build it with: cmake --build "
         "--preset release");
  const study::LinkPlaces places = study::link_places();
  const int ranks = flags.devices > 0 ? flags.devices : std::max(places.gpus, 2);
  const bool on_gpus = ranks <= places.gpus;
  if (!on_gpus) check_processes(ranks, places, context);
  return study::measure_link({executable_path(), ranks, on_gpus});
}

/// A failure waits until the findings, which may tell its cause, are printed.
LinkProbe probe_link(const DoctorFlags& flags, const Context& context) {
  if (!flags.link) return {};
  try {
    return {.measured = measure(flags, context)};
  } catch (const Error& error) {
    if (launch::is_stop_code(error.exit_code())) throw;
    return {.error = error};
  }
}

/// While nothing else of this program works.
std::optional<report::Noise> measure_noise(const DoctorFlags& flags, const Context& context) {
  if (!flags.noise) return std::nullopt;
  const study::NoiseProbe probe;
  if (!context.quiet && !context.json)
    writer_for(stderr)(fmt::format("measuring noise for {:.0f} s ...\n", probe.seconds));
  return report::noise_of(study::probe_noise(probe, steady_clock()));
}

std::string grade_text(const std::vector<Finding>& findings, Health worst) {
  const auto count = [&](Health health) {
    return std::ranges::count(findings, health, &Finding::health);
  };
  return fmt::format("grade: {} ({} degraded, {} bad, {} broken)",
                     kGrades.at(static_cast<std::size_t>(worst)), count(Health::degraded),
                     count(Health::bad), count(Health::broken));
}

std::string broken_text(const std::vector<Finding>& findings) {
  std::vector<std::string> names;
  for (const Finding& one : findings) {
    if (one.health == Health::broken) names.push_back(one.name);
  }
  return "broken: " + shortened(names);
}

void print_document(Json all, const LinkProbe& link) {
  if (link.measured) all["link"] = report::link_json(*link.measured);
  if (link.error) {
    all["link"] = nullptr;
    all["link_error"] = link.error->what();
    writer_for(stderr)(fmt::format("error: {}\n", printable_lines(link.error->what())));
  }
  print_json(all);
}

void print_text(const std::vector<Finding>& findings, const LinkProbe& link,
                const Context& context) {
  if (!context.quiet) print("trainctl " + version_text());
  for (const Finding& one : findings) {
    if (!context.quiet || one.health != Health::ok) print_finding(one, color_for(context, stdout));
  }
  if (link.measured)
    put(stdout, "\n" + report::link_text(*link.measured, style_for(context, stdout)));
  if (link.error)
    writer_for(stderr)(fmt::format("error: {}\n", printable_lines(link.error->what())));
}

int doctor(const DoctorFlags& flags, const Context& context) {
  ENSURE(config, flags.link || flags.devices == 0,
         "--devices tells how many processes --link measures between: add that");
  if (flags.link) check_working_directory();
  launch::end_on_stop_signals();
  // Before examine() loads what may start threads: workers are watched by a process without any.
  const LinkProbe link = probe_link(flags, context);
  const std::optional<report::Noise> noise = measure_noise(flags, context);
  const std::vector<Finding> findings = examine();
  const Health worst = std::ranges::max(findings, {}, &Finding::health).health;
  if (context.json) {
    Json all = document(findings, worst);
    if (noise) all["noise"] = report::noise_json(*noise);
    print_document(std::move(all), link);
  } else {
    print_text(findings, link, context);
    if (noise) print("noise: " + report::noise_text(*noise));
    print(grade_text(findings, worst));
  }
  if (link.error) return link.error->exit_code();
  if (worst == Health::broken) print_error(context, broken_text(findings));
  return worst == Health::broken ? static_cast<int>(ErrorKind::resource) : 0;
}

}  // namespace

void add_doctor(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<DoctorFlags>();
  CLI::App& verb = add_verb(
      program, context,
      {"doctor", "what this machine has, what is degraded and how to fix it", kMachineGroup},
      [flags, &context] { return doctor(*flags, context); });
  verb.add_flag("--link", flags->link,
                "measure what processes take to sum tensors of 1 KiB to 64 MiB: latency and "
                "bandwidth, for plan --devices");
  verb.add_flag("--noise", flags->noise,
                "measure for some seconds how much the same work varies in time, and so how small "
                "a slow-down this machine can tell");
  verb.add_option("--devices", flags->devices,
                  "processes to measure between: GPUs where there are so many, else on the CPU")
      ->type_name("N")
      ->check(whole_number(2, 1024));
  verb.footer("Exit codes: 0 trainctl can train here; 11 something it needs is missing.");
}

}  // namespace trainctl::app
