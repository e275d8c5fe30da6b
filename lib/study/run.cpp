#include "study/run.hpp"

#include "base/strings.hpp"
#include "config/load.hpp"
#include "launch/environment.hpp"
#include "launch/signals.hpp"
#include "launch/supervisor.hpp"
#include "report/result.hpp"
#include "report/weights.hpp"
#include "spec/monitor.hpp"
#include "study/devices.hpp"
#include "study/manifest.hpp"
#include "study/run_log.hpp"
#include "weights/import.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace trainctl::study {
namespace {

// The experiment file verbatim; the files it extends below, as comments, so that the folder alone
// tells everything.
std::string as_written(const std::vector<config::ConfigFile>& files) {
  std::string text;
  for (const config::ConfigFile& file : files) {
    if (&file == &files.front()) {
      text = file.text;
      continue;
    }
    text += fmt::format("{}# extends {}:\n", text.ends_with('\n') ? "" : "\n",
                        printable(file.path.string()));
    for (const std::string& line : split(file.text, '\n')) text += "#   " + line + "\n";
  }
  return text;
}

// libgomp reads it while it is loaded, so it has to be there before the worker is exec'd.
std::map<std::string, std::string> worker_environment(const spec::Trainer& trainer,
                                                      const Machine& machine,
                                                      const DeviceChoice& devices) {
  const int share = std::max(1, machine.cores / devices.ranks);
  return {{"OMP_NUM_THREADS", std::to_string(trainer.num_threads.value_or(share))},
          {launch::kAccelerator, devices.gpu ? "gpu" : "cpu"}};
}

launch::LaunchSpec launch_spec(const RunRequest& request, const fs::path& folder,
                               const Machine& machine, const DeviceChoice& devices) {
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  launch::LaunchSpec launch;
  launch.argv = {request.executable.string(), "worker", "--run-dir", folder.string()};
  launch.argv.insert(launch.argv.end(), static_cast<std::size_t>(request.verbosity), "-v");
  launch.world_size = devices.ranks;
  launch.environment = worker_environment(trainer, machine, devices);
  if (const char* root = std::getenv(launch::kTorchRoot)) {
    launch.library_path = {std::string(root) + "/lib", std::string(root) + "/../nvidia/cu13/lib"};
  }
  if (trainer.num_threads.is_auto()) launch.keep_users.emplace_back("OMP_NUM_THREADS");
  launch.log_folder = folder / "logs";
  return launch;
}

report::FirstFailure told(const launch::RankFailure& failure) {
  return {.rank = failure.rank,
          .host = failure.host,
          .pid = failure.pid,
          .signal = failure.signal,
          .signal_name = failure.signal_name,
          .exit_code = failure.exit_code,
          .step = failure.step,
          .phase = failure.phase,
          .message = failure.message,
          .log_tail = failure.log_tail};
}

report::Command typed(const RunRequest& request) {
  report::Command command;
  if (!request.argv.empty()) command.program = request.argv.front();
  command.config = request.config_file.string();
  command.overrides = request.overrides;
  const fs::path& out = request.folder.root;
  if (!request.folder.fixed && out != FolderRequest().root) command.out = out.string();
  return command;
}

report::Levers levers(const spec::Experiment& experiment, const Machine& machine) {
  const spec::CacheMode mode = experiment.dataset.cache.mode;
  const auto modes = enum_names(mode);
  return {.cpu_cores = machine.cores,
          .checkpoint_every = experiment.checkpoint.every_n_epochs,
          .validate_every = experiment.trainer.check_val_every_n_epoch,
          .cache_mode = modes.at(static_cast<std::size_t>(mode)),
          .cache_modes = {modes.begin(), modes.end()}};
}

// One run from its folder to result.json.
class Run {
 public:
  Run(const RunRequest& request, RunFolder folder, const Clock& clock)
      : request_(request),
        clock_(clock),
        started_(clock.now()),
        folder_(std::move(folder)),
        machine_(read_machine()),
        git_(git_state(request.config_file.parent_path())),
        log_(folder_.path / "logs") {
    outcome_.folder = folder_.path;
    outcome_.ending.started_at = utc_timestamp();
    outcome_.ending.run_dir = outcome_.folder.string();
    outcome_.ending.command = typed(request);
    outcome_.ending.levers = levers(request.loaded.experiment, machine_);
  }

  RunOutcome execute(const MakeSinks& make_sinks) {
    keep_failure([&] {
      write_inputs();
      sinks_ = make_sinks(outcome_.folder);
      import_weights();
      supervise();
    });
    std::error_code ignored;  // nobody needs it any more
    fs::remove(outcome_.folder / weights::kImportedName, ignored);
    for (const auto& sink : sinks_) keep_failure([&] { sink->close(); });
    write_result();
    return std::move(outcome_);
  }

 private:
  // What goes wrong is told by the ending; a later failure does not hide the first.
  template <class Body>
  void keep_failure(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      fail_with(error);
    } catch (const std::exception& error) {
      fail_with(Error(ErrorKind::unexpected, error.what()));
    }
  }

  void supervise() {
    const DeviceChoice devices = choose_devices(request_.loaded.experiment.trainer, machine_,
                                                [] { return launch::probe_gpus(); });
    if (!devices.warning.empty()) on_event(0, events::Warning{devices.warning});
    const launch::LaunchSpec launch = launch_spec(request_, outcome_.folder, machine_, devices);
    log_.starts(launch);
    end_as(launch::supervise(
        launch, [&](int rank, const auto& event) { on_event(rank, event); }, [&] { on_tick(); },
        clock_));
  }

  // A worker maps safetensors alone: what else it may be is read here, once for all ranks.
  void import_weights() const {
    const auto& wish = request_.loaded.experiment.weights;
    if (!wish) return;
    in_context("weights", [&] {
      if (wish->sha256) weights::check_sha256(wish->path, *wish->sha256);
      if (weights::format_of(wish->path) == weights::Format::torch)
        weights::import_torch(wish->path, outcome_.folder / weights::kImportedName);
    });
  }

  void write_inputs() {
    reserved_.emplace(outcome_.folder / "result.json", kResultBytes);
    make_folder(outcome_.folder / "logs");
    make_folder(outcome_.folder / "checkpoints");
    write_atomically(outcome_.folder / "config.yaml", as_written(request_.loaded.files));
    write_atomically(outcome_.folder / "config.resolved.yaml",
                     spec::dump_resolved(request_.loaded));
    write_manifest();
  }

  void write_manifest() {
    ManifestInput input{.argv = request_.argv,
                        .config_file = request_.config_file,
                        .version = request_.version,
                        .started_at = outcome_.ending.started_at,
                        .library_versions = {},
                        .data_fingerprints = {},
                        .threads = {},
                        .workers = {},
                        .weights = nullptr,
                        .machine = machine_,
                        .git = git_};
    if (const auto hello = outcome_.record.hellos.find(0); hello != outcome_.record.hellos.end()) {
      input.library_versions = hello->second.versions;
    }
    if (const auto& started = outcome_.record.started) {
      input.data_fingerprints = started->data_fingerprints;
      input.threads = {started->num_threads, started->num_threads_why};
      input.workers = {started->num_workers, started->prefetch_factor, started->num_workers_why};
    }
    if (const auto& weights = outcome_.record.weights)
      input.weights = report::weights_document(*weights);
    write_atomically(outcome_.folder / "manifest.json", to_pretty(manifest(input)) + "\n");
  }

  void on_event(int rank, const events::Event& event) {
    outcome_.record.add(rank, event);
    log_.on_event(rank, event);
    // Only now are versions and data known; before, the manifest told what was asked for.
    if (std::holds_alternative<events::RunStarted>(event)) write_manifest();
    for (const auto& sink : sinks_) sink->on_event(rank, event);
  }

  void on_tick() {
    for (const auto& sink : sinks_) sink->on_tick(clock_.now());
  }

  void end_as(const launch::Outcome& outcome) {
    report::Ending& ending = outcome_.ending;
    ending.exit_code = outcome.exit_code;
    ending.verdict = outcome.verdict;
    ending.message = outcome.message;
    if (outcome.first_failure) ending.first_failure = told(*outcome.first_failure);
  }

  void fail_with(const Error& error) {
    if (outcome_.ending.exit_code != 0) return;
    outcome_.ending.exit_code = error.exit_code();
    outcome_.ending.verdict = "failed";
    outcome_.ending.message = error.what();
  }

  void write_result() {
    outcome_.ending.wall_s = clock_.now() - started_;
    outcome_.result = report::result_document(outcome_.record, outcome_.ending);
    try {
      ENSURE(resource, reserved_.has_value(), "no space could be reserved for result.json");
      reserved_->publish(to_pretty(outcome_.result) + "\n");
    } catch (const Error& error) {
      outcome_.unwritten = error.what();
      fail_with(error);
      outcome_.result = report::result_document(outcome_.record, outcome_.ending);
    }
  }

  static constexpr std::uint64_t kResultBytes = 1 << 16;

  const RunRequest& request_;
  const Clock& clock_;
  double started_;
  RunFolder folder_;
  Machine machine_;
  GitState git_;
  RunOutcome outcome_;
  Sinks sinks_;
  RunLog log_;
  std::optional<ReservedFile> reserved_;
};

}  // namespace

std::vector<std::string> metric_columns(const spec::Experiment& experiment) {
  std::vector<std::string> names = spec::monitored_values(experiment);
  std::ranges::stable_partition(names,
                                [](const std::string& name) { return name.starts_with("train/"); });
  return names;
}

RunOutcome run_experiment(const RunRequest& request, const MakeSinks& make_sinks,
                          const Clock& clock) {
  const launch::SignalGuard
      guard;  // a signal after the last worker has gone must not cost the result
  return Run(request, make_run_folder(request.folder), clock).execute(make_sinks);
}

}  // namespace trainctl::study
