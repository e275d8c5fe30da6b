#include "plan/ranks.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/data_checks.hpp"
#include "cli/engine_library.hpp"
#include "launch/supervise/verdict.hpp"
#include "report/plan/communication_cost.hpp"
#include "report/plan/model_plan.hpp"
#include "spec/checks/checker.hpp"
#include "spec/checks/checks.hpp"
#include "study/preflight/rank_plan.hpp"
#include "study/workers/worker_tasks.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace trainctl::app {
namespace {

constexpr int kMostRanks = 1 << 20;

bool names_link(const RanksArguments& arguments) {
  return !arguments.link_file.empty() || !arguments.bandwidth.empty();
}

double bandwidth_of(const std::string& text) {
  const auto rate = report::parse_bandwidth(text);
  ENSURE(config, rate.has_value(),
         "--bandwidth {}: expected a number above 0 with a unit, as in 25GB/s or 100Gbit/s",
         printable(text));
  return *rate;
}

double latency_of(const std::string& text) {
  const auto seconds = report::parse_latency(text);
  ENSURE(config, seconds.has_value(),
         "--latency {}: expected a number with a unit, as in 20us or 0.5ms", printable(text));
  return *seconds;
}

report::Link link_of_file(const std::string& file) {
  constexpr std::uint64_t kMostBytes = 16 << 20;
  const Json document =
      Json::parse(read_file(file, kMostBytes, ReadFailure::config), nullptr, false);
  ENSURE(config, !document.is_discarded(), "{}: it is not JSON", printable(file));
  return report::read_link(document, file);
}

/// So many ranks of the plan's kind as this machine has devices for: the numbers are those of one
/// message between neighbours, which does not depend on the number of ranks.
events::LinkMeasured measured_link(int ranks, bool on_gpus) {
  const study::LinkPlaces places = study::link_places();
  const int here = std::min(ranks, on_gpus ? places.gpus : std::max(places.cores, 2));
  ENSURE(
      resource, here >= 2,
      "this machine has {} GPU(s), between which no link can be measured: add --link FILE, which "
      "'trainctl doctor --link --json' wrote on one that has several, or --bandwidth and "
      "--latency",
      places.gpus);
  return study::measure_link({executable_path(), here, on_gpus});
}

std::pair<report::Link, std::string> choose_link(const RanksArguments& arguments, bool on_gpus) {
  if (!arguments.link_file.empty()) return {link_of_file(arguments.link_file), arguments.link_file};
  if (!arguments.bandwidth.empty())
    return {{latency_of(arguments.latency), bandwidth_of(arguments.bandwidth)},
            "--bandwidth and --latency"};
  const events::LinkMeasured measured = measured_link(arguments.devices, on_gpus);
  return {report::fit_link(measured).link, "measured now: " + report::ranks_text(measured)};
}

std::string device_of(const events::Measured& model) {
  if (model.device != "cpu") return model.device_name.empty() ? model.device : model.device_name;
  return fmt::format("cpu with {} thread{}", model.num_threads, model.num_threads == 1 ? "" : "s");
}

/// Whether a run of so many ranks would share the cores of this machine, and fits into its memory.
bool shares_cores(const RanksArguments& arguments, const spec::Loaded& loaded,
                  const report::Plan& plan) {
  const spec::Experiment& experiment = loaded.experiment;
  const bool for_gpus = experiment.trainer.accelerator == spec::Accelerator::gpu ||
                        experiment.distributed.backend == spec::Backend::nccl ||
                        plan.model->device != "cpu";
  const bool elsewhere = names_link(arguments) || experiment.trainer.num_nodes > 1;
  const bool fits = report::host_bytes(*plan.model, arguments.devices) <= plan.available_bytes;
  return !for_gpus && !elsewhere && fits && arguments.devices <= std::max(plan.cores, 2);
}

/// In place of the foretold step, the one that so many processes of this machine take together.
void add_shared_step(const RanksArguments& arguments, const spec::Loaded& loaded,
                     report::Plan& plan) {
  const events::Measured shared = study::measure_shared_steps(
      {loaded, executable_path(), /*times_steps=*/true}, *plan.model, arguments.devices);
  report::PlannedScaling& scaling = *plan.scaling;
  const bool averages = scaling.step.exchange == report::Exchange::weights;
  const double averaging_s =
      averages ? report::foretell(scaling.step, scaling.link, arguments.devices).exposed_s : 0;
  scaling.shared = study::shared_step(*plan.model, shared, scaling.step.batches, averaging_s);
  report::use_measured(*scaling.shared, scaling.step, scaling.rows);
  plan.model->taken_cores = std::max(plan.model->taken_cores, shared.taken_cores);
}

void add_scaling(const RanksArguments& arguments, const spec::Loaded& loaded, report::Plan& plan) {
  const auto step = study::exchanged_step(loaded.experiment, *plan.model);
  ENSURE(unexpected, step.has_value(), "the model was measured without a time");
  const bool on_gpus = plan.model->device != "cpu";
  auto [link, from] = choose_link(arguments, on_gpus);
  plan.scaling =
      report::PlannedScaling{.step = *step,
                             .link = link,
                             .link_from = std::move(from),
                             .device = device_of(*plan.model),
                             .backward_from = on_gpus ? "by the operations of the passes" : "timed",
                             .rows = report::foretell_growth(*step, link, arguments.devices)};
  if (shares_cores(arguments, loaded, plan)) add_shared_step(arguments, loaded, plan);
}

/// The plan stays worth its time without a link. Returns the exit code.
int try_scaling(const RanksArguments& arguments, const spec::Loaded& loaded, report::Plan& plan) {
  try {
    add_scaling(arguments, loaded, plan);
    return 0;
  } catch (const Error& error) {
    if (launch::is_stop_code(error.exit_code()) || error.kind() == ErrorKind::config) throw;
    plan.no_scaling = error.what();
    return error.exit_code();
  }
}

/// As the file says it, on a machine that has so many devices of the kind it is for.
spec::Loaded elsewhere(spec::Loaded written, int ranks) {
  spec::Trainer& trainer = written.experiment.trainer;
  trainer.devices.value = ranks;
  trainer.num_nodes = 1;
  const bool for_gpus = trainer.cuda_graphs.value_or(false) ||
                        written.experiment.distributed.backend == spec::Backend::nccl;
  if (for_gpus && trainer.accelerator == spec::Accelerator::automatic)
    trainer.accelerator = spec::Accelerator::gpu;
  return written;
}

/// What the checks of a run say of so many ranks: those of the data of the experiment that was
/// loaded here, the others of the one that was written.
std::vector<std::string> problems_of(spec::Loaded loaded, const spec::Loaded& written, int ranks) {
  loaded.experiment.trainer.devices.value = ranks;
  config::Diagnostics found;
  const spec::Loaded there = elsewhere(written, ranks);
  spec::Checker checker(there.experiment, there.tree, found);
  spec::check_distributed(checker);
  spec::check_capture(there, found);
  (void)check_data(loaded, Purpose::training, found);
  std::vector<std::string> problems;
  for (const config::Diagnostic& one : found.sorted()) {
    if (one.severity != config::Severity::error) continue;
    problems.push_back(one.hint.empty() ? one.message : one.message + "; " + one.hint);
  }
  return problems;
}

void add_fake_ranks(int ranks, const spec::Loaded& written, const spec::Loaded& loaded,
                    report::Plan& plan) {
  study::EpochSamples samples{.train = plan.epoch_samples, .val = {}};
  for (const report::PlannedSplit& split : plan.splits) {
    if (split.name == "val") samples.val = split.samples;
  }
  report::FakeRanks fake = study::plan_ranks(loaded.experiment, samples, ranks);
  if (plan.model) study::add_model(loaded.experiment, *plan.model, fake);
  fake.loading_bytes = plan.rank_bytes();
  fake.problems = problems_of(loaded, written, ranks);
  if (!plan.refused_here.empty())
    fake.notes.push_back("a run on this machine would be refused: " + plan.refused_here);
  plan.fake = std::move(fake);
}

}  // namespace

void add_ranks_options(CLI::App& verb, RanksArguments& arguments) {
  verb.add_option("--devices", arguments.devices,
                  "foretell steps of so many ranks, of 64 and of 1,024, from a timed step and a "
                  "link")
      ->type_name("N")
      ->check(whole_number(2, kMostRanks));
  verb.add_option("--link", arguments.link_file,
                  "the link between them, from 'doctor --link --json'; else it is measured now")
      ->type_name("FILE");
  verb.add_option("--bandwidth", arguments.bandwidth,
                  "in its place: bytes a second between two ranks, 25GB/s or 200Gbit/s")
      ->type_name("RATE");
  verb.add_option("--latency", arguments.latency, "with it: time of a message, 20us")
      ->type_name("TIME");
  verb.add_option("--fake-ranks", arguments.fake_ranks,
                  "check a run of so many ranks here, without their devices: steps, last batches, "
                  "buckets, memory")
      ->type_name("N")
      ->check(whole_number(1, kMostRanks));
}

void check_ranks_options(const RanksArguments& arguments, bool no_model) {
  ENSURE(config, arguments.devices == 0 || !no_model,
         "--devices needs a measured step: leave --no-model out");
  ENSURE(resource, arguments.devices == 0 || find_engine_library().has_value(),
         "--devices needs a measured step, and this build has no engine; build it with: cmake "
         "--build --preset release");
  const bool names_any = names_link(arguments) || !arguments.latency.empty();
  ENSURE(config, arguments.devices > 0 || !names_any,
         "--link, --bandwidth and --latency tell of the link between --devices N: add that");
  ENSURE(config, arguments.bandwidth.empty() == arguments.latency.empty(),
         "--bandwidth and --latency belong together: give both, or --link FILE");
  ENSURE(config, arguments.link_file.empty() || arguments.bandwidth.empty(),
         "the link comes from --link or from --bandwidth and --latency: leave one of them out");
  if (!arguments.bandwidth.empty()) {
    (void)bandwidth_of(arguments.bandwidth);
    (void)latency_of(arguments.latency);
  }
  if (!arguments.link_file.empty()) (void)link_of_file(arguments.link_file);
}

std::vector<std::string> overrides_of(const RanksArguments& arguments, int most_here) {
  if (arguments.fake_ranks == 0) return {};
  const int gpus = static_cast<int>(read_machine().gpus.size());
  const int here = std::min({arguments.fake_ranks, most_here, gpus > 0 ? gpus : usable_cores()});
  std::vector<std::string> overrides{fmt::format("++trainer.devices={}", here),
                                     "++trainer.num_nodes=1", "++trainer.cuda_graphs=auto",
                                     "++distributed.backend=auto"};
  if (gpus == 0)
    overrides.insert(overrides.end(),
                     {"++trainer.accelerator=auto", "++trainer.allow_slow_precision=true"});
  return overrides;
}

int add_ranks(const RanksArguments& arguments, const spec::Loaded& written,
              const spec::Loaded& loaded, report::Plan& plan) {
  if (arguments.fake_ranks > 0) add_fake_ranks(arguments.fake_ranks, written, loaded, plan);
  return arguments.devices > 0 && plan.model ? try_scaling(arguments, loaded, plan) : 0;
}

}  // namespace trainctl::app
