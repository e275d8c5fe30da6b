#include "study/preflight/scaling_plan.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/supervise/verdict.hpp"
#include "report/plan/communication_cost.hpp"
#include "report/plan/model_plan.hpp"
#include "spec/checks/checker.hpp"
#include "spec/checks/checks.hpp"
#include "study/preflight/experiment_checks.hpp"
#include "study/preflight/rank_plan.hpp"
#include "study/workers/worker_tasks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace trainctl::study {
namespace {

bool names_link(const ScalingOptions& options) {
  return !options.link_file.empty() || !options.bandwidth.empty();
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
events::LinkMeasured measured_link(int ranks, bool on_gpus, const fs::path& executable) {
  const LinkPlaces places = link_places();
  const int here = std::min(ranks, on_gpus ? places.gpus : std::max(places.cores, 2));
  ENSURE(
      resource, here >= 2,
      "this machine has {} GPU(s), between which no link can be measured: add --link FILE, which "
      "'trainctl doctor --link --json' wrote on one that has several, or --bandwidth and "
      "--latency",
      places.gpus);
  return measure_link({executable, here, on_gpus});
}

std::pair<report::Link, std::string> choose_link(const ScalingOptions& options, bool on_gpus,
                                                 const fs::path& executable) {
  if (!options.link_file.empty()) return {link_of_file(options.link_file), options.link_file};
  if (!options.bandwidth.empty())
    return {{latency_of(options.latency), bandwidth_of(options.bandwidth)},
            "--bandwidth and --latency"};
  const events::LinkMeasured measured = measured_link(options.devices, on_gpus, executable);
  return {report::fit_link(measured).link, "measured now: " + report::ranks_text(measured)};
}

std::string device_of(const events::Measured& model) {
  if (model.device != "cpu") return model.device_name.empty() ? model.device : model.device_name;
  return fmt::format("cpu with {} thread{}", model.num_threads, plural(model.num_threads));
}

/// Whether a run of so many ranks would share the cores of this machine, and fits into its memory.
bool shares_cores(const ScalingOptions& options, const spec::Loaded& loaded,
                  const report::Plan& plan) {
  const spec::Experiment& experiment = loaded.experiment;
  const bool for_gpus = experiment.trainer.accelerator == spec::Accelerator::gpu ||
                        experiment.distributed.backend == spec::Backend::nccl ||
                        plan.model->device != "cpu";
  const bool elsewhere = names_link(options) || experiment.trainer.num_nodes > 1;
  const bool fits = report::host_bytes(*plan.model, options.devices) <= plan.available_bytes;
  return !for_gpus && !elsewhere && fits && options.devices <= std::max(plan.cores, 2);
}

/// In place of the foretold step, the one that so many processes of this machine take together.
void add_shared_step(int ranks, const MeasureRequest& request, report::Plan& plan) {
  const events::Measured shared = measure_shared_steps(request, *plan.model, ranks);
  report::PlannedScaling& scaling = *plan.scaling;
  const bool averages = scaling.step.exchange == report::Exchange::weights;
  const double averaging_s =
      averages ? report::foretell(scaling.step, scaling.link, ranks).exposed_s : 0;
  scaling.shared = shared_step(*plan.model, shared, scaling.step.batches, averaging_s);
  report::use_measured(*scaling.shared, scaling.step, scaling.rows);
  plan.model->taken_cores = std::max(plan.model->taken_cores, shared.taken_cores);
}

void add_steps(const ScalingOptions& options, const spec::Loaded& loaded,
               const fs::path& executable, report::Plan& plan) {
  const auto step = exchanged_step(loaded.experiment, *plan.model);
  ENSURE(unexpected, step.has_value(), "the model was measured without a time");
  const bool on_gpus = plan.model->device != "cpu";
  auto [link, from] = choose_link(options, on_gpus, executable);
  plan.scaling =
      report::PlannedScaling{.step = *step,
                             .link = link,
                             .link_from = std::move(from),
                             .device = device_of(*plan.model),
                             .backward_from = on_gpus ? "by the operations of the passes" : "timed",
                             .rows = report::foretell_growth(*step, link, options.devices)};
  if (shares_cores(options, loaded, plan))
    add_shared_step(options.devices, {loaded, executable, /*times_steps=*/true}, plan);
}

/// A link that cannot be measured does not end the plan. Returns the exit code.
int try_steps(const ScalingOptions& options, const spec::Loaded& loaded, const fs::path& executable,
              report::Plan& plan) {
  try {
    add_steps(options, loaded, executable, plan);
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

void add_fake_ranks(int ranks, const PlanInput& input, report::Plan& plan) {
  const spec::Experiment& experiment = input.loaded.experiment;
  EpochSamples samples{.train = plan.epoch_samples, .val = {}};
  for (const report::PlannedSplit& split : plan.splits) {
    if (split.name == "val") samples.val = split.samples;
  }
  report::FakeRanks fake = plan_ranks(experiment, samples, ranks);
  if (plan.model) add_model(experiment, *plan.model, fake);
  fake.loading_bytes = plan.rank_bytes();
  fake.problems = problems_of(input.loaded, input.written, ranks);
  if (!plan.refused_here.empty())
    fake.notes.push_back("a run on this machine would be refused: " + plan.refused_here);
  plan.fake = std::move(fake);
}

}  // namespace

void check_options(const ScalingOptions& options) {
  const bool names_any = names_link(options) || !options.latency.empty();
  ENSURE(config, options.devices > 0 || !names_any,
         "--link, --bandwidth and --latency tell of the link between --devices N: add that");
  ENSURE(config, options.bandwidth.empty() == options.latency.empty(),
         "--bandwidth and --latency belong together: give both, or --link FILE");
  ENSURE(config, options.link_file.empty() || options.bandwidth.empty(),
         "the link comes from --link or from --bandwidth and --latency: leave one of them out");
  if (!options.bandwidth.empty()) {
    (void)bandwidth_of(options.bandwidth);
    (void)latency_of(options.latency);
  }
  if (!options.link_file.empty()) (void)link_of_file(options.link_file);
}

std::vector<std::string> overrides_of(const ScalingOptions& options, int most_here) {
  if (options.fake_ranks == 0) return {};
  const int gpus = static_cast<int>(read_machine().gpus.size());
  const int here = std::min({options.fake_ranks, most_here, gpus > 0 ? gpus : usable_cores()});
  std::vector<std::string> overrides{fmt::format("++trainer.devices={}", here),
                                     "++trainer.num_nodes=1", "++trainer.cuda_graphs=auto",
                                     "++distributed.backend=auto"};
  if (gpus == 0)
    overrides.insert(overrides.end(),
                     {"++trainer.accelerator=auto", "++trainer.allow_slow_precision=true"});
  return overrides;
}

int add_scaling(const ScalingOptions& options, const PlanInput& input, const fs::path& executable,
                report::Plan& plan) {
  if (options.fake_ranks > 0) add_fake_ranks(options.fake_ranks, input, plan);
  return options.devices > 0 && plan.model ? try_steps(options, input.loaded, executable, plan) : 0;
}

}  // namespace trainctl::study
