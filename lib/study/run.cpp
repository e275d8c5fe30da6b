#include "study/run.hpp"

#include "base/strings.hpp"
#include "checkpoint/export.hpp"
#include "config/load.hpp"
#include "launch/signals.hpp"
#include "launch/supervisor.hpp"
#include "log/log.hpp"
#include "report/evaluation.hpp"
#include "report/result.hpp"
#include "report/weights.hpp"
#include "spec/monitor.hpp"
#include "study/attempts.hpp"
#include "study/continuation.hpp"
#include "study/device_memory.hpp"
#include "study/devices.hpp"
#include "study/history.hpp"
#include "study/manifest.hpp"
#include "study/plugin_files.hpp"
#include "study/restarts.hpp"
#include "study/run_ending.hpp"
#include "study/run_log.hpp"
#include "study/superseded.hpp"
#include "study/worker_launch.hpp"
#include "weights/import.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

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

// A start of the run: what is asked for, and what came before it.
struct Start {
  RunRequest request;
  Continuation past;
};

// What decides whether there is another start.
struct Course {
  const Attempts& attempts;
  Restarts& restarts;
};

// One run from its folder to result.json.
class Run {
 public:
  Run(const Start& start, const fs::path& folder, const Course& course, const Clock& clock)
      : request_(start.request),
        past_(start.past),
        attempts_(course.attempts),
        restarts_(course.restarts),
        clock_(clock),
        started_(clock.now()),
        machine_(read_machine()),
        git_(git_state(start.request.config_file.parent_path())),
        log_(folder / "logs") {
    outcome_.folder = folder;
    outcome_.ending.started_at = utc_timestamp();
    outcome_.ending.run_dir = outcome_.folder.string();
    outcome_.ending.command = typed(request_);
    outcome_.ending.levers = levers(request_.loaded.experiment, machine_);
    outcome_.ending.resumed_from = state_of(past_.origin, folder);
    outcome_.ending.trains = trains();
  }

  RunOutcome execute(const MakeSinks& make_sinks) {
    keep_failure([&] {
      write_inputs();
      sinks_ = make_sinks(outcome_.folder);
      say_what_was();
      import_weights();
      supervise();
    });
    std::error_code ignored;  // nobody needs it any more
    fs::remove(outcome_.folder / weights::kImportedName, ignored);
    for (const auto& sink : sinks_) keep_failure([&] { sink->close(); });
    if (trains() && !outcome_.record.resumed) keep_failure([&] { undo_continuation(); });
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

  void say_what_was() {
    recall_epochs();
    using Begins = Attempts::Begins;
    const Begins begins = past_.origin.checkpoint.empty() ? Begins::anew : Begins::later;
    if (attempts_.is_another()) on_event(0, events::Warning{attempts_.notice(begins), {}});
    for (const std::string& notice : past_.notices) {
      log_.tell(0, notice);
      on_event(0, events::Warning{notice, {}});
    }
  }

  // What refused the checkpoint must not cost the newer ones.
  void undo_continuation() {
    if (take_back(outcome_.folder))
      log_.tell(0, "the run has not gone on: what was put aside for it is back");
  }

  // Totals and the best epoch are those of the whole run; its file is written when a better comes.
  void recall_epochs() {
    report::RunRecord& record = outcome_.record;
    for (const events::EpochEnded& epoch : past_.epochs) {
      record.add(0, epoch);
      if (!epoch.improved || !fs::exists(outcome_.folder / kBestWeights)) continue;
      const std::string monitor = spec::checkpoint_monitor(request_.loaded.experiment);
      record.add(0, events::CheckpointSaved{
                        .path = kBestWeights,
                        .epoch = epoch.epoch,
                        .global_step = epoch.global_step,
                        .metric = monitor,
                        .value = report::find_metric(epoch.metrics, monitor).value_or(0)});
    }
    record.last_step = std::max(record.last_step, past_.origin.manifest.global_step);
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
    if (request_.task.kind == spec::TaskKind::replay) return;  // its weights are in the dump
    if (!trains()) {
      in_context("--checkpoint", [&] { take_weights(request_.task.weights); });
      return;
    }
    const auto& wish = request_.loaded.experiment.weights;
    if (!wish) return;
    in_context("weights", [&] {
      if (wish->sha256) weights::check_sha256(wish->path, *wish->sha256);
      import_torch_file(wish->path);
    });
  }

  /// Also out of a checkpoint, which is a folder.
  void take_weights(const fs::path& path) const {
    if (!fs::is_directory(path)) return import_torch_file(path);
    checkpoint::export_weights(path, checkpoint::Weights::validated,
                               outcome_.folder / weights::kImportedName);
  }

  void import_torch_file(const fs::path& file) const {
    if (weights::format_of(file) == weights::Format::torch)
      weights::import_torch(file, outcome_.folder / weights::kImportedName);
  }

  void write_inputs() {
    write_provisional_result();
    reserved_.emplace(outcome_.folder / "result.json", kResultBytes);
    make_folder(outcome_.folder / "logs");
    if (trains()) make_folder(outcome_.folder / "checkpoints");
    write_task();
    const fs::path written = outcome_.folder / "config.yaml";
    std::error_code failure;  // none: it goes on by the resolved file, which is in the folder
    const bool is_there =
        past_.in_place && fs::exists(written) &&
        fs::equivalent(request_.config_file.parent_path(), outcome_.folder, failure);
    if (!is_there) write_atomically(written, as_written(request_.loaded.files));
    write_atomically(outcome_.folder / "config.resolved.yaml", resolved(request_));
    plugins_ = plugin_files(request_.loaded.experiment.plugins);
    write_manifest();
  }

  // What stays where trainctl itself is killed; that of an earlier start may not.
  void write_provisional_result() {
    outcome_.ending.attempts = attempts_.with_last({.verdict = "unfinished"});
    Json result = document();
    result["verdict"] = "unfinished";
    result["exit_code"] = nullptr;
    if (result.contains("attempts")) result["attempts"].back()["exit_code"] = nullptr;
    result["message"] = fmt::format(
        "no end is written: the run goes on, or trainctl itself was killed{}",
        trains() ? "; then 'trainctl run --resume " + outcome_.folder.string() + "' goes on" : "");
    write_atomically(outcome_.folder / "result.json", to_pretty(result) + "\n");
  }

  // Nor may the task of an earlier start be taken for this one's.
  void write_task() const {
    std::error_code ignored;
    const fs::path file = outcome_.folder / spec::kTaskFile;
    if (request_.task == spec::Task{}) {
      fs::remove(file, ignored);
    } else {
      write_atomically(file, spec::dump_task(request_.task));
    }
  }

  void write_manifest() {
    ManifestInput input{.argv = request_.argv,
                        .config_file = request_.config_file,
                        .version = request_.version,
                        .started_at = outcome_.ending.started_at,
                        .library_versions = {},
                        .data_fingerprints = past_.fingerprints,
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
    if (const auto* resumed = std::get_if<events::Resumed>(&event)) {
      keep_aside(outcome_.folder);
      take(rank, judged(*resumed));
    } else {
      take(rank, event);
    }
  }

  // A worker knows the config of now alone.
  [[nodiscard]] events::Resumed judged(events::Resumed resumed) const {
    if (past_.not_bitwise.empty()) return resumed;
    resumed.bitwise = false;
    resumed.why_not += (resumed.why_not.empty() ? "" : "; ") + past_.not_bitwise;
    return resumed;
  }

  void take(int rank, const events::Event& event) {
    outcome_.record.add(rank, event);
    write_if_possible([&] { log_.on_event(rank, event); });
    if (const auto* started = std::get_if<events::RunStarted>(&event)) {
      expect_same_data(past_.fingerprints, started->data_fingerprints);
      // Only now are versions and data known; before, the manifest told what was asked for.
      write_if_possible([&] { write_manifest(); });
    }
    for (const auto& sink : sinks_) sink->on_event(rank, event);
    for (const auto& sink : sinks_) {
      if (const auto news = sink->news()) on_event(0, events::Warning{*news, {}});
    }
  }

  // A full disk may end neither ranks that train nor what they save elsewhere.
  template <class Body>
  void write_if_possible(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::resource) throw;
      on_event(0, events::Warning{error.what(), {}});
    }
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
    report::Ending& ending = outcome_.ending;
    ending.wall_s = clock_.now() - started_;
    if (trains()) {
      const bool had_none = past_.origin.checkpoint.empty() || outcome_.record.resumed;
      restarts_.judge(ending, had_none ? nullptr : &past_.origin);
      ending.checkpoint = newest_state(outcome_.folder);
      ending.resume_command = resume_command(request_, ending);
    }
    ending.attempts = attempts_.with_last(outcome_.ending);
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
  static constexpr const char* kBestWeights = "checkpoints/best.safetensors";

  const RunRequest& request_;
  const Continuation& past_;
  const Attempts& attempts_;
  Restarts& restarts_;
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

// It begins with a checkpoint, or at the first step.
Start start_at(RunRequest request, const fs::path& folder, Origin origin) {
  request.task.resume = origin.checkpoint;
  Continuation past = continue_run(request.loaded, folder, std::move(origin));
  return {std::move(request), std::move(past)};
}

Start first_start(const RunRequest& request, const fs::path& folder) {
  if (!request.resume) return {request, {}};
  if (take_back(folder))
    log::get().warn("{}: a start before has put checkpoints aside and not gone on; they are back",
                    printable(folder.string()));
  return start_at(request, folder, choose_checkpoint(folder, *request.resume));
}

Start restarted(const RunRequest& request, const fs::path& folder, const Restarts& restarts) {
  Start start = start_at(request, folder, *restarts.next());
  start.past.notices.insert(start.past.notices.begin(), restarts.notice());
  return start;
}

// False: a signal has come.
bool wait_for_memory(const FreeMemory& before, launch::SignalGuard& guard, const Clock& clock) {
  constexpr auto kPause = std::chrono::milliseconds(250);
  const bool is_back = await_memory(before, {.probe = [] { return free_device_memory(); },
                                             .is_stopped = [&] { return guard.has_heard(); },
                                             .pause = [&] { std::this_thread::sleep_for(kPause); },
                                             .clock = clock});
  if (guard.has_heard()) return false;
  if (!is_back)
    log::get().warn(
        "a GPU still has less memory free than before the first start; the next one "
        "begins all the same");
  return true;
}

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
  const RunFolder folder = make_run_folder(
      request.resume ? resumed_folder(request.folder, *request.resume) : request.folder);
  Attempts attempts(request, folder.path);
  Start start = first_start(attempts.current(), folder.path);
  Restarts restarts(request.loaded.experiment.trainer.max_restarts, folder.path, start.past.origin);
  const FreeMemory free_before = memory_before(request.loaded.experiment.trainer);
  for (;;) {
    RunOutcome outcome = Run(start, folder.path, {attempts, restarts}, clock).execute(make_sinks);
    if (guard.has_heard()) return outcome;  // also one that came while the workers ended
    const bool is_over = !restarts.next() && !attempts.has_next(outcome.ending);
    if (is_over || !wait_for_memory(free_before, guard, clock)) return outcome;
    try {
      if (auto again = attempts.after(outcome.ending)) {
        start = {std::move(*again), {}};
        restarts.begin_anew();
      } else {
        start = restarted(start.request, folder.path, restarts);
      }
    } catch (const Error& error) {
      log::get().warn("there is no further attempt: {}", error.what());
      return outcome;
    }
  }
}

}  // namespace trainctl::study
