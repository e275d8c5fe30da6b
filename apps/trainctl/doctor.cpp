#include "base/machine/machine.hpp"
#include "cli/verb.hpp"
#include "data/inspect/libraries.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/verdict.hpp"
#include "program.hpp"
#include "report/compare/statistics.hpp"
#include "report/plan/communication_cost.hpp"
#include "study/preflight/machine_examination.hpp"
#include "study/sweep/ledger.hpp"
#include "study/workers/worker_jobs.hpp"

namespace trainctl::app {
namespace {

using report::Grade;
using report::GradeLine;

struct DoctorFlags {
  bool link = false;
  bool noise = false;
  bool gpu = false;
  int devices = 0;  // 0: all GPUs if there are at least two, else two processes
};

constexpr std::array kColors{"32", "33", "31", "1;31"};
constexpr std::array kGrades{"good", "fair", "poor", "unfit"};  // overall, by the worst part

Json document(const std::vector<GradeLine>& findings, Grade worst) {
  Json all = Json::array();
  for (const GradeLine& one : findings) {
    all.push_back({{"name", one.name},
                   {"health", enum_name(one.grade)},
                   {"found", one.found},
                   {"hint", one.fix},
                   {"costs", one.costs}});
  }
  Json libraries = Json::object();
  libraries["SQLite"] = study::sqlite_version();
  for (const data::Library& one : data::linked_libraries()) libraries[one.name] = one.version;
  for (const data::Library& one : data::loaded_libraries())
    libraries[one.name] = one.version.empty() ? Json(nullptr) : Json(one.version);
  return {{"schema", "trainctl.doctor/2"}, {"version", kBuildInfo.version},
          {"health", enum_name(worst)},    {"grade", kGrades.at(static_cast<std::size_t>(worst))},
          {"libraries", libraries},        {"findings", all}};
}

void print_finding(const GradeLine& finding, config::Color color) {
  const auto rank = static_cast<std::size_t>(finding.grade);
  // Missing software that only some data needs has a hint but does not lower the grade.
  const bool is_absent = finding.grade == Grade::ok && !finding.fix.empty();
  std::string health = fmt::format("{:<9}", is_absent ? "absent" : enum_name(finding.grade));
  if (color == config::Color::on)
    health = fmt::format("\x1b[{}m{}\x1b[0m", kColors.at(rank), health);
  print(fmt::format("  {} {:<13} {}", health, finding.name, finding.found));
  if (!finding.costs.empty()) print(fmt::format("  {:<23} {}", "", finding.costs));
  if (!finding.fix.empty()) print(fmt::format("  {:<23} -> {}", "", finding.fix));
}

/// The result of --link, or the reason why it failed.
struct LinkProbe {
  std::optional<events::LinkMeasured> measured = {};
  std::optional<Error> error = {};
};

study::ProgramParts program_parts() {
  return {.has_engine = kBuildInfo.has_engine,
          .has_kernels = kBuildInfo.has_kernels,
          .torch_lib = kBuildInfo.torch_lib,
          .executable = executable_path(),
          .engine = find_engine_library(),
          .engine_with_cuda = find_engine_library(/*with_cuda=*/true)};
}

/// CPU processes may outnumber the cores: they are slower, but the measurement works.
void check_processes(int ranks, const study::LinkDevices& places, const Context& context) {
  constexpr std::uint64_t kEach = 256 << 20;  // memory of a process with libtorch and its tensors
  const std::uint64_t most = available_memory() / kEach;
  ENSURE(
      resource, static_cast<std::uint64_t>(ranks) <= most,
      "{} processes of about {} each do not fit into the available {} of memory\nhint: {}", ranks,
      human_bytes(kEach), human_bytes(available_memory()),
      most < 2 ? std::string("free some memory") : fmt::format("use --devices {} or less", most));
  if (ranks > places.cores && !context.quiet)
    writer_for(stderr)(fmt::format(
        "warning: {} processes share {} core{}, so the measured link is slower than the real one\n",
        ranks, places.cores, plural(places.cores)));
}

/// Measures on GPUs if there are enough, else with processes that compute on the CPU.
events::LinkMeasured measure(const DoctorFlags& flags, const Context& context) {
  ENSURE(resource, find_engine_library().has_value(),
         "--link requires the training engine (libtrainctl_engine.so), which this build does not "
         "have\nhint: build it with cmake --build --preset release");
  const study::LinkDevices places = study::count_link_devices();
  const int ranks = flags.devices > 0 ? flags.devices : std::max(places.gpus, 2);
  const bool on_gpus = ranks <= places.gpus;
  if (!on_gpus) check_processes(ranks, places, context);
  return study::measure_link({executable_path(), ranks, on_gpus});
}

/// Catches a failure, so that the findings, which may show its cause, are printed first.
LinkProbe probe_link(const DoctorFlags& flags, const Context& context) {
  if (!flags.link) return {};
  try {
    return {.measured = measure(flags, context)};
  } catch (const Error& error) {
    if (launch::is_stop_code(error.exit_code())) throw;
    return {.error = error};
  }
}

/// Must run while the rest of the program is idle.
std::optional<report::Noise> measure_noise(const DoctorFlags& flags, const Context& context) {
  if (!flags.noise) return std::nullopt;
  const study::NoiseProbe probe;
  if (!context.quiet && !context.json)
    writer_for(stderr)(fmt::format("measuring noise for {:.0f} s ...\n", probe.seconds));
  return report::noise_of(study::probe_noise(probe, steady_clock()));
}

/// Tests the GPUs if there are a driver and an engine for them, and returns what is known about
/// them. Must be called while this process has one thread.
std::optional<report::GpuFacts> examine_gpus(const DoctorFlags& flags, const Context& context) {
  if (!flags.gpu) return std::nullopt;
  const study::ProgramParts program = program_parts();
  const launch::GpuProbe found = launch::probe_gpus();
  if (!program.engine_with_cuda || found.count == 0)
    return study::examine_gpus(program, found, std::nullopt);
  if (!context.quiet && !context.json)
    writer_for(stderr)(
        fmt::format("testing {} GPU{} for about 20 s ...\n", found.count, plural(found.count)));
  return study::examine_gpus(program, found,
                             study::test_gpus({executable_path(), found.count, /*on_gpus=*/true}));
}

std::string grade_text(const std::vector<GradeLine>& findings, Grade worst) {
  const auto count = [&](Grade grade) {
    return std::ranges::count(findings, grade, &GradeLine::grade);
  };
  return fmt::format("grade: {} (findings: {} degraded, {} bad, {} broken)",
                     kGrades.at(static_cast<std::size_t>(worst)), count(Grade::degraded),
                     count(Grade::bad), count(Grade::broken));
}

std::string broken_text(const std::vector<GradeLine>& findings, const char* device) {
  std::vector<std::string> names;
  for (const GradeLine& one : findings) {
    if (one.grade == Grade::broken) names.push_back(one.name);
  }
  return fmt::format("cannot train on {}, because parts of it are broken: {}", device,
                     shortened(names));
}

void print_document(Json all, const LinkProbe& link) {
  if (link.measured) all["link"] = report::link_json(*link.measured);
  if (link.error) {
    all["link"] = nullptr;
    all["link_error"] = one_line(link.error->what());
    writer_for(stderr)(fmt::format("error: {}\n", printable_lines(link.error->what())));
  }
  print_json(all);
}

void print_text(const std::vector<GradeLine>& findings, const LinkProbe& link,
                const Context& context) {
  if (!context.quiet) print("trainctl " + version_text());
  for (const GradeLine& one : findings) {
    if (!context.quiet || one.grade != Grade::ok) print_finding(one, color_for(context, stdout));
  }
  if (link.measured)
    put(stdout, "\n" + report::link_text(*link.measured, style_for(context, stdout)));
  if (link.error)
    writer_for(stderr)(fmt::format("error: {}\n", printable_lines(link.error->what())));
}

int doctor(const DoctorFlags& flags, const Context& context) {
  ENSURE(config, flags.link || flags.devices == 0, "--devices requires --link");
  if (flags.link || flags.gpu) check_working_directory();
  launch::exit_on_stop_signals();
  // Comes before examine_machine(), which may start threads: the supervisor must not have any.
  const LinkProbe link = probe_link(flags, context);
  const std::optional<report::GpuFacts> gpus = examine_gpus(flags, context);
  const std::optional<report::Noise> noise = measure_noise(flags, context);
  std::vector<GradeLine> findings = study::examine_machine(program_parts());
  if (gpus) std::ranges::copy(report::grade_gpus(*gpus), std::back_inserter(findings));
  const Grade worst = std::ranges::max(findings, {}, &GradeLine::grade).grade;
  if (context.json) {
    Json all = document(findings, worst);
    if (noise) all["noise"] = report::noise_json(*noise);
    if (gpus) all["gpu"] = report::gpu_facts_json(*gpus);
    print_document(std::move(all), link);
  } else {
    print_text(findings, link, context);
    if (noise) print("noise: " + report::noise_text(*noise));
    print(grade_text(findings, worst));
  }
  if (link.error) return link.error->exit_code();
  if (worst == Grade::broken)
    print_error(context, broken_text(findings, gpus ? "GPUs of this machine" : "this machine"));
  return worst == Grade::broken ? static_cast<int>(ErrorKind::resource) : 0;
}

}  // namespace

void add_doctor(CLI::App& program, Context& context) {
  const auto [verb, flags] = add_verb(
      program, context, {"doctor", "check this machine and suggest fixes", kMachineGroup}, doctor);
  add_options(verb, {{"--gpu", flags.gpu, "test the GPUs and explain what they require"},
                     {"--link", flags.link, "measure latency and bandwidth between processes"},
                     {"--noise", flags.noise,
                      "measure how much timings vary, and the smallest detectable slowdown"},
                     {"--devices", flags.devices, "N",
                      "number of processes for --link (default: one per GPU, at least 2)",
                      whole_number(2, 1024)}});
  verb.footer(
      "Exit codes: 0 trainctl can train on this machine (with --gpu: on its GPUs); 11 something "
      "that it needs is missing or does not work.");
}

}  // namespace trainctl::app
