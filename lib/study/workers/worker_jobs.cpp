#include "study/workers/worker_jobs.hpp"

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "config/tree/node.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/supervisor.hpp"
#include "launch/supervise/verdict.hpp"
#include "spec/experiment/job.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/folder/run_folder.hpp"
#include "study/preflight/experiment_checks.hpp"
#include "study/preflight/named_weights.hpp"
#include "study/workers/devices.hpp"
#include "study/workers/worker_launch.hpp"
#include "weights/import.hpp"

#include <csignal>
#include <system_error>

namespace trainctl::study {
namespace {

enum class JobDevice { of_run, cpu };

/// A short job on the experiment's model that worker processes run instead of training.
struct ModelJob {
  const spec::Loaded& loaded;
  fs::path executable;  // started as `trainctl worker`
  spec::Job job;
  const char* purpose;  // "measures the model"; for the message if the process is killed
  const char* hint;     // what to do if memory is short
  JobDevice device = JobDevice::of_run;
  int ranks = 1;  // ranks that run it together, at most the devices of the run
};

using OnJobEvent = std::function<void(const events::Event&)>;

launch::LaunchSpec launch_spec(const ModelJob& job, const fs::path& folder) {
  const spec::Experiment& experiment = job.loaded.experiment;
  const Machine machine = read_machine();
  const DeviceChoice devices =
      job.device == JobDevice::cpu
          ? DeviceChoice{}
          : devices_of_run(experiment, machine, [] { return launch::probe_gpus(); });
  launch::LaunchSpec launch =
      worker_launch({job.executable, folder, experiment.trainer, machine, devices});
  launch.world_size = job.ranks;
  return launch;
}

/// SIGKILL nearly always comes from the OOM killer.
bool was_killed(const launch::Outcome& outcome) {
  return outcome.first_failure && outcome.first_failure->signal == SIGKILL;
}

std::string log_of(const events::RankFailure& failure) {
  std::string line;
  for (const std::string& part : split(failure.log_tail, '\n')) {
    if (!part.empty()) line += (line.empty() ? "; its log ends: " : " | ") + part;
  }
  return line;
}

std::string cause_of(const launch::Outcome& outcome, const ModelJob& job) {
  const auto& failure = outcome.first_failure;
  if (!failure) return outcome.message;
  if (was_killed(outcome))
    return fmt::format(
        "the process that {} was killed by SIGKILL, possibly out of memory\nhint: {}", job.purpose,
        job.hint);
  const std::string& message = failure->message.empty() ? outcome.message : failure->message;
  const std::string_view cause = without_hint(message);
  return fmt::format("{}{}{}", cause, log_of(*failure), message.substr(cause.size()));
}

Error failure_of(const launch::Outcome& outcome, const ModelJob& job) {
  const auto kind = static_cast<ErrorKind>(outcome.exit_code);
  const bool for_memory = kind == ErrorKind::rank_failed && was_killed(outcome);
  return {for_memory ? ErrorKind::resource : kind, cause_of(outcome, job)};
}

/// Runs the job in `folder`, a scratch folder. Throws the error that a run would end with if its
/// device is missing or if model and data do not fit, and Error(resource) when there is not enough
/// memory.
void run_model_job(const ModelJob& job, const fs::path& folder, const OnJobEvent& on_event) {
  const launch::SignalGuard guard;
  const FolderLock lock(folder);
  make_folder(folder / "logs");
  write_atomically(folder / "config.resolved.yaml", spec::dump_resolved(job.loaded));
  write_atomically(folder / spec::kJobFile, spec::dump_job(job.job));
  const launch::Outcome outcome = launch::supervise(
      launch_spec(job, folder), [&](int /*rank*/, const events::Event& event) { on_event(event); },
      [] {}, steady_clock());
  if (outcome.exit_code != 0) throw failure_of(outcome, job);
}

constexpr std::array kPatternKeys{"optimizer.no_weight_decay_on", "optimizer.groups",
                                  "optimizer.adamw_on"};

/// Adds the problems that the worker has written, each at the position of its key in the
/// experiment.
void add_problems(const fs::path& file, const config::Node& tree,
                  config::Diagnostics& diagnostics) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  for (const Json& one : Json::parse(read_file(file, kMostBytes, ReadFailure::resource))) {
    const auto key = one.at("key").get<std::string>();
    const config::Node* place = config::find_path(tree, key);
    diagnostics.add({.position = place != nullptr ? place->position : config::Position{},
                     .message = with_prefix(key, one.at("message").get<std::string>()),
                     .kind = static_cast<ErrorKind>(one.at("kind").get<int>())});
  }
}

events::Measured measured_by(const ModelJob& job) {
  const launch::SignalGuard guard;  // until the scratch folder is removed
  const ScratchFolder folder(temporary_folder());
  std::optional<events::Measured> measured;
  run_model_job(job, folder.path(), [&](const events::Event& event) {
    if (const auto* found = std::get_if<events::Measured>(&event)) measured = *found;
  });
  ENSURE(unexpected, measured.has_value(), "the worker exited without a measurement");
  return *measured;
}

spec::Trainer trainer_for(const LinkRequest& request) {
  spec::Trainer trainer;
  trainer.accelerator = request.on_gpus ? spec::Accelerator::gpu : spec::Accelerator::cpu;
  trainer.devices.value = request.ranks;
  trainer.num_threads.value = 1;  // the sums need little computation
  return trainer;
}

Error failure_of(const launch::Outcome& outcome, const char* activity) {
  const auto& failure = outcome.first_failure;
  const std::string cause =
      failure && !failure->message.empty() ? failure->message : outcome.message;
  return {static_cast<ErrorKind>(outcome.exit_code), fmt::format("cannot {}: {}", activity, cause)};
}

/// Runs a job that needs no experiment in processes of this machine, in a temporary folder. The
/// caller holds a SignalGuard.
launch::Outcome run_on_devices(const LinkRequest& request, const spec::Job& job,
                               std::optional<double> hang_timeout_s, const OnJobEvent& on_event) {
  const ScratchFolder folder(temporary_folder());
  const FolderLock lock(folder.path());
  make_folder(folder.path() / "logs");
  write_atomically(folder.path() / spec::kJobFile, spec::dump_job(job));
  const spec::Trainer trainer = trainer_for(request);
  const Machine machine = read_machine();
  const DeviceChoice devices =
      choose_devices(trainer, machine, [] { return launch::probe_gpus(); });
  launch::LaunchSpec launch =
      worker_launch({request.executable, folder.path(), trainer, machine, devices});
  launch.world_size = devices.ranks;
  launch.stop_grace_s = launch.grace_s;  // there is nothing to save
  launch.hang_timeout_s = hang_timeout_s;
  return launch::supervise(
      launch, [&](int /*rank*/, const events::Event& event) { on_event(event); }, [] {},
      steady_clock());
}

/// Returns the experiment of the run that saved the checkpoint.
spec::Loaded experiment_of(const fs::path& checkpoint, const checkpoint::Manifest& manifest) {
  const auto config = manifest.facts.find("config");
  ENSURE(checkpoint, config != manifest.facts.end(),
         "cannot export {} as TorchScript: the checkpoint does not contain its experiment\nhint: "
         "export .safetensors or .pth",
         printable(checkpoint.string()));
  config::Diagnostics diagnostics;
  return spec::load_experiment_text((checkpoint / "manifest").string(), config->second, {},
                                    diagnostics);
}

/// Moves a complete file; both folders are on the same file system.
void publish(const fs::path& written, const fs::path& to) {
  std::error_code failure;
  fs::rename(written, to, failure);
  ENSURE(resource, !failure, "cannot write {}: {}", printable(to.string()), failure.message());
  sync_folder(to.parent_path());
}

}  // namespace

bool names_parameters(const spec::Loaded& loaded) {
  const spec::Experiment& experiment = loaded.experiment;
  return experiment.weights || !experiment.freeze.empty() || !experiment.unfreeze_at.empty() ||
         std::ranges::any_of(kPatternKeys, [&](const char* key) {
           const config::Node* patterns = config::find_path(loaded.tree, key);
           return patterns != nullptr && !patterns->items.empty();  // [] in a resolved experiment
         });
}

void check_model(const spec::Loaded& loaded, const std::optional<spec::ModelInput>& input,
                 const fs::path& executable, config::Diagnostics& diagnostics) {
  const launch::SignalGuard guard;  // until the scratch folder is removed
  const ScratchFolder folder(temporary_folder());
  if (const auto& weights = loaded.experiment.weights) {
    Json offered = Json::array();
    for (const auto& entry :
         weights::entries_of(local_weights(weights->path), {.section = weights->section}))
      offered.push_back({{"name", entry.name}, {"dtype", entry.dtype}, {"shape", entry.shape}});
    write_atomically(folder.path() / spec::kOfferedFile, to_line(offered));
  }
  run_model_job({.loaded = loaded,
                 .executable = executable,
                 .job = {.kind = spec::JobKind::check, .model_input = input},
                 .purpose = "builds the model",
                 .hint = "use a smaller model",
                 .device = JobDevice::cpu},
                folder.path(), [](const events::Event&) {});
  add_problems(folder.path() / spec::kProblemsFile, loaded.tree, diagnostics);
}

events::Measured measure_model(const MeasureRequest& request) {
  const auto kind = request.times_steps ? spec::JobKind::probe : spec::JobKind::measure;
  return measured_by({.loaded = request.loaded,
                      .executable = request.executable,
                      .job = {.kind = kind},
                      .purpose = "measures the model",
                      .hint = "lower loader.batch_size, or leave the model out with --no-model"});
}

events::Measured measure_shared_steps(const MeasureRequest& request, const events::Measured& alone,
                                      int ranks) {
  using spec::ActivationCheckpointing;
  spec::Loaded loaded = request.loaded;
  spec::Trainer& trainer = loaded.experiment.trainer;
  set_devices(trainer, ranks);
  trainer.num_nodes = 1;
  trainer.activation_checkpointing =
      alone.recomputes ? ActivationCheckpointing::blocks : ActivationCheckpointing::off;
  loaded.experiment.loader.batch_size = alone.measured_batches.back();
  return measured_by({.loaded = loaded,
                      .executable = request.executable,
                      .job = {.kind = spec::JobKind::probe},
                      .purpose = "times the steps of several ranks",
                      .hint = "lower loader.batch_size, or leave --devices out",
                      .ranks = ranks});
}

LinkDevices count_link_devices() {
  const Machine machine = read_machine();
  const int gpus = machine.gpus.empty() ? 0 : launch::probe_gpus().count;
  return {gpus, machine.cores};
}

events::LinkMeasured measure_link(const LinkRequest& request) {
  ASSERT(request.ranks >= 2);
  const launch::SignalGuard guard;
  std::optional<events::LinkMeasured> measured;
  const auto on_event = [&](const events::Event& event) {
    if (const auto* found = std::get_if<events::LinkMeasured>(&event)) measured = *found;
  };
  const launch::Outcome outcome =
      run_on_devices(request, {.kind = spec::JobKind::link}, std::nullopt, on_event);
  if (outcome.exit_code != 0) throw failure_of(outcome, "measure the link");
  ENSURE(unexpected, measured.has_value(), "the workers exited without a link measurement");
  return *measured;
}

report::GpuTest test_gpus(const LinkRequest& request) {
  constexpr double kCheckS = 60;  // limit of a check
  const launch::SignalGuard guard;
  report::GpuTest test;
  const auto on_event = [&](const events::Event& event) {
    if (const auto* found = std::get_if<events::GpuChecked>(&event)) add_check(test, *found);
  };
  const launch::Outcome outcome =
      run_on_devices(request, {.kind = spec::JobKind::gpu}, kCheckS, on_event);
  if (launch::is_stop_code(outcome.exit_code)) throw failure_of(outcome, "test the GPUs");
  if (outcome.exit_code == 0) return test;
  const auto& failure = outcome.first_failure;
  test.failure = failure && !failure->message.empty() ? failure->message : outcome.message;
  if (failure) test.failure += log_of(*failure);
  if (failure) test.failed_gpu = failure->rank;
  return test;
}

checkpoint::Exported export_script(const ScriptExport& request) {
  const launch::SignalGuard guard;  // until the scratch folder is removed
  const fs::path to = fs::absolute(request.to);
  const ScratchFolder folder(to.parent_path());
  const fs::path weights = folder.path() / "exported.safetensors";
  checkpoint::Exported exported =
      checkpoint::export_weights(request.checkpoint, request.weights, weights);
  const spec::Loaded loaded = experiment_of(request.checkpoint, exported.manifest);
  spec::Job job{.kind = spec::JobKind::script, .weights = weights};
  job.model_input = read_model_input(loaded.experiment);
  job.quantize = request.quantize;
  run_model_job({.loaded = loaded,
                 .executable = request.executable,
                 .job = std::move(job),
                 .purpose = "exports the model",
                 .hint = "export .safetensors or .pth, which need no model",
                 .device = JobDevice::cpu},
                folder.path(), [](const events::Event&) {});
  publish(folder.path() / spec::kScriptFile, to);
  return exported;
}

}  // namespace trainctl::study
