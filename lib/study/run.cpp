#include "study/run.hpp"

#include "base/strings.hpp"
#include "config/load.hpp"
#include "launch/signals.hpp"
#include "launch/supervisor.hpp"
#include "log/log.hpp"
#include "report/evaluation.hpp"
#include "report/profile.hpp"
#include "report/result.hpp"
#include "report/weights.hpp"
#include "spec/monitor.hpp"
#include "study/attempts.hpp"
#include "study/devices.hpp"
#include "study/manifest.hpp"
#include "study/plugin_files.hpp"
#include "study/run_log.hpp"
#include "study/worker_launch.hpp"
#include "weights/import.hpp"

#include <algorithm>
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

launch::LaunchSpec launch_spec(const RunRequest& request, const fs::path& folder,
                               const Machine& machine, const DeviceChoice& devices) {
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  launch::LaunchSpec launch =
      worker_launch({request.executable, folder, trainer, machine, devices});
  launch.argv.insert(launch.argv.end(), static_cast<std::size_t>(request.verbosity), "-v");
  launch.world_size = devices.ranks;
  const bool saves = request.task.kind == spec::TaskKind::train;
  if (!saves) launch.stop_grace_s = launch.grace_s;
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

std::string resolved(const RunRequest& request) {
  const std::string text = spec::dump_resolved(request.loaded);
  if (request.batch_size_why.empty()) return text;
  return fmt::format("# loader.batch_size: auto was found to be {}: {}\n{}",
                     request.loaded.experiment.loader.batch_size.samples, request.batch_size_why,
                     text);
}

FoundBatch found_batch(const RunRequest& request) {
  if (request.batch_size_why.empty()) return {};
  return {request.loaded.experiment.loader.batch_size.samples, request.batch_size_why};
}

// Empty where nothing was recorded.
std::string profile_of(const fs::path& run_dir) {
  constexpr std::uint64_t kMostBytes = 64 << 20;
  std::error_code ignored;
  const fs::path table = run_dir / "profile" / "operators.csv";
  const std::uint64_t bytes = fs::exists(table, ignored) ? fs::file_size(table, ignored) : 0;
  if (bytes == 0 || bytes > kMostBytes) return "";
  const std::string top = report::top_operator(read_file(table, kMostBytes, ReadFailure::resource));
  return "profile/trace.json, operators.txt and layers.txt" + (top.empty() ? "" : "; " + top);
}

// One run from its folder to result.json.
class Run {
 public:
  Run(const RunRequest& request, const fs::path& folder, const Attempts& attempts,
      const Clock& clock)
      : request_(request),
        attempts_(attempts),
        clock_(clock),
        started_(clock.now()),
        machine_(read_machine()),
        git_(git_state(request.config_file.parent_path())),
        log_(folder / "logs") {
    outcome_.folder = folder;
    outcome_.ending.started_at = utc_timestamp();
    outcome_.ending.run_dir = outcome_.folder.string();
    outcome_.ending.command = typed(request);
    outcome_.ending.levers = levers(request.loaded.experiment, machine_);
    outcome_.ending.trains = trains();
  }

  RunOutcome execute(const MakeSinks& make_sinks) {
    keep_failure([&] {
      write_inputs();
      sinks_ = make_sinks(outcome_.folder);
      if (attempts_.is_another()) on_event(0, events::Warning{attempts_.notice(), {}});
      import_weights();
      supervise();
    });
    std::error_code ignored;  // nobody needs it any more
    fs::remove(outcome_.folder / weights::kImportedName, ignored);
    for (const auto& sink : sinks_) keep_failure([&] { sink->close(); });
    keep_failure([&] { outcome_.ending.profile = profile_of(outcome_.folder); });
    write_result();
    return std::move(outcome_);
  }

 private:
  [[nodiscard]] bool trains() const { return request_.task.kind == spec::TaskKind::train; }

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
    thread_waiting_ = launch.waiting == launch::Waiting::spin ? "spin" : "sleep";
    log_.starts(launch);
    end_as(launch::supervise(
        launch, [&](int rank, const auto& event) { on_event(rank, event); }, [&] { on_tick(); },
        clock_));
  }

  // A worker maps safetensors alone: what else it may be is read here, once for all ranks.
  void import_weights() const {
    if (!trains()) {
      in_context("--checkpoint", [&] { import_torch_file(request_.task.weights); });
      return;
    }
    const auto& wish = request_.loaded.experiment.weights;
    if (!wish) return;
    in_context("weights", [&] {
      if (wish->sha256) weights::check_sha256(wish->path, *wish->sha256);
      import_torch_file(wish->path);
    });
  }

  void import_torch_file(const fs::path& file) const {
    if (weights::format_of(file) == weights::Format::torch)
      weights::import_torch(file, outcome_.folder / weights::kImportedName);
  }

  void write_inputs() {
    reserved_.emplace(outcome_.folder / "result.json", kResultBytes);
    make_folder(outcome_.folder / "logs");
    if (trains()) {
      make_folder(outcome_.folder / "checkpoints");
    } else {
      write_atomically(outcome_.folder / spec::kTaskFile, spec::dump_task(request_.task));
    }
    write_atomically(outcome_.folder / "config.yaml", as_written(request_.loaded.files));
    write_atomically(outcome_.folder / "config.resolved.yaml", resolved(request_));
    plugins_ = plugin_files(request_.loaded.experiment.plugins);
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
                        .thread_waiting = thread_waiting_,
                        .workers = {},
                        .batch_size = found_batch(request_),
                        .recomputes = {},
                        .allocator = {},
                        .plugins = plugins_,
                        .weights = nullptr,
                        .machine = machine_,
                        .git = git_};
    if (const auto hello = outcome_.record.hellos.find(0); hello != outcome_.record.hellos.end()) {
      input.library_versions = hello->second.versions;
      input.allocator = hello->second.allocator;
    }
    if (const auto& started = outcome_.record.started) {
      input.data_fingerprints = started->data_fingerprints;
      input.threads = {started->num_threads, started->num_threads_why};
      input.workers = {started->num_workers, started->prefetch_factor, started->num_workers_why};
      input.recomputes = {started->recomputes, started->recomputes_why};
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
    outcome_.ending.attempts = attempts_.with_last(outcome_.ending);
    outcome_.result = document();
    try {
      ENSURE(resource, reserved_.has_value(), "no space could be reserved for result.json");
      reserved_->publish(to_pretty(outcome_.result) + "\n");
    } catch (const Error& error) {
      outcome_.unwritten = error.what();
      fail_with(error);
      outcome_.ending.attempts = attempts_.with_last(outcome_.ending);
      outcome_.result = document();
    }
  }

  [[nodiscard]] Json document() const {
    return trains() ? report::result_document(outcome_.record, outcome_.ending)
                    : report::evaluation_document(outcome_.record, outcome_.ending);
  }

  static constexpr std::uint64_t kResultBytes = 1 << 16;

  const RunRequest& request_;
  const Attempts& attempts_;
  const Clock& clock_;
  double started_;
  Machine machine_;
  GitState git_;
  Json plugins_;
  std::string thread_waiting_;
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
  ENSURE(config, !request.loaded.experiment.loader.batch_size.automatic,
         "loader.batch_size is auto, which only 'trainctl run' finds out: add a number, as in "
         "loader.batch_size=64");
  launch::SignalGuard guard;  // a signal after the last worker has gone must not cost the result
  const RunFolder folder = make_run_folder(request.folder);
  Attempts attempts(request, folder.path);
  RunOutcome outcome = Run(request, folder.path, attempts, clock).execute(make_sinks);
  const auto next_attempt = [&]() -> std::optional<RunRequest> {
    if (guard.has_heard()) return std::nullopt;  // also one that came while the workers ended
    try {
      return attempts.after(outcome.ending);
    } catch (const Error& error) {
      log::get().warn("there is no further attempt: {}", error.what());
      return std::nullopt;
    }
  };
  while (const auto next = next_attempt())
    outcome = Run(*next, folder.path, attempts, clock).execute(make_sinks);
  return outcome;
}

}  // namespace trainctl::study
