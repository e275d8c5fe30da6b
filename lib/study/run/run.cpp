#include "study/run/run.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "checkpoint/contents.hpp"
#include "checkpoint/folder.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/verdict.hpp"
#include "log/log.hpp"
#include "report/record/run_files.hpp"
#include "report/text/run_summary.hpp"
#include "report/text/task_results.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment/value_types.hpp"
#include "study/nodes/node_run.hpp"
#include "study/resume/run_history.hpp"
#include "study/run/run_ending.hpp"
#include "study/run/run_start.hpp"
#include "study/workers/devices.hpp"
#include "study/workers/worker_launch.hpp"

#include <chrono>
#include <system_error>
#include <thread>

namespace trainctl::study {

RunRequest make_request(const Invocation& invocation, spec::Loaded loaded) {
  RunRequest request;
  static_cast<Invocation&>(request) = invocation;
  request.folder.name = loaded.experiment.name;
  request.loaded = std::move(loaded);
  return request;
}

RunRequest make_request(const Invocation& invocation, const std::vector<std::string>& added,
                        config::Diagnostics& diagnostics, Purpose purpose) {
  Invocation call = invocation;
  call.overrides.insert(call.overrides.end(), added.begin(), added.end());
  TrainingSamples samples;
  RunRequest request =
      make_request(call, spec::load_experiment(call.config_file, call.overrides, diagnostics,
                                               checks_for(purpose, samples)));
  request.samples = std::move(samples);
  return request;
}

namespace {

std::string pairs(const std::map<std::string, std::string>& values) {
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format(" {}={}", name, printable(value));
  return text;
}

std::string line_of(const events::Hello& hello) {
  return fmt::format("pid {} on {} uses {}, started in {};{}", hello.pid, printable(hello.host),
                     printable(hello.device), human_duration(hello.startup_s),
                     pairs(hello.versions));
}

std::string layout_text(const events::RunStarted& run) {
  if (run.channels_last_why.empty()) return "";
  return fmt::format("; memory format {} ({})", run.channels_last ? "channels_last" : "contiguous",
                     printable(run.channels_last_why));
}

std::string precision_text(const events::RunStarted& run) {
  if (run.fp32_precision.empty() || run.fp32_precision == "ieee") return printable(run.precision);
  return fmt::format("{} with {} in float32 products ({})", printable(run.precision),
                     printable(run.fp32_precision), printable(run.fp32_precision_why));
}

std::string line_of(const events::RunStarted& run) {
  return fmt::format(
      "{} CPU thread{} ({}), {} loader worker{} with prefetch factor {} ({}), global batch {}, {} "
      "steps per epoch, precision {}; {} training and {} validation samples;{}{}{}{}",
      run.num_threads, plural(run.num_threads), printable(run.num_threads_why), run.num_workers,
      plural(run.num_workers), run.prefetch_factor, printable(run.num_workers_why),
      with_thousands(run.global_batch), with_thousands(run.steps_per_epoch), precision_text(run),
      with_thousands(run.train_samples), with_thousands(run.val_samples),
      pairs(run.data_fingerprints),
      run.no_data_digest.empty() ? "" : "; no data_digest: " + printable(run.no_data_digest),
      run.recomputes_why.empty() ? "" : "; " + printable(run.recomputes_why), layout_text(run));
}

/// Adds a line from the supervisor to the log of a rank, and to the console under -v. Throws
/// Error(resource) when the log cannot be written.
void log_line(const fs::path& run_dir, int rank, const std::string& message) {
  const std::string line = one_line(message);
  log::get().debug("rank {}: {}", rank, line);
  AppendFile(launch::log_path(run_dir / "logs", rank))
      .append_line(fmt::format("{} trainctl: {}", utc_timestamp(), line));
}

/// Logs the choices of a run: device, weights, threads, data. Throws as log_line() does.
void log_choices(const fs::path& run_dir, int rank, const events::Event& event) {
  if (const auto* hello = std::get_if<events::Hello>(&event))
    log_line(run_dir, rank, line_of(*hello));
  if (const auto* weights = std::get_if<events::WeightsSet>(&event))
    log_line(run_dir, rank, join(report::weights_lines(*weights), "; "));
  if (const auto* run = std::get_if<events::RunStarted>(&event))
    log_line(run_dir, rank, line_of(*run));
}

/// Passes the events of one start to the record of the run, the logs of its ranks and the sinks.
class RunEvents {
 public:
  using OnStarted = std::function<void()>;

  /// `start` and `record` must outlive this object. `on_started` is called once versions and data
  /// are in the record.
  RunEvents(const Start& start, fs::path folder, report::RunRecord& record, OnStarted on_started)
      : start_(start),
        folder_(std::move(folder)),
        record_(record),
        on_started_(std::move(on_started)) {}

  void listen(Sinks sinks) { sinks_ = std::move(sinks); }

  /// Adds the earlier epochs to the record, so that the totals and the best epoch cover the whole
  /// run. The file of the best weights is written again when a better epoch comes.
  void recall_epochs() {
    constexpr const char* kBestWeights = "checkpoints/best.safetensors";
    for (const events::EpochEnded& epoch : start_.past.epochs) {
      record_.add(0, epoch);
      if (!epoch.improved || !fs::exists(folder_ / kBestWeights)) continue;
      const std::string monitor = spec::checkpoint_monitor(start_.request.loaded.experiment);
      record_.add(0, events::CheckpointSaved{
                         .path = kBestWeights,
                         .epoch = epoch.epoch,
                         .global_step = epoch.global_step,
                         .metric = monitor,
                         .value = events::find_metric(epoch.metrics, monitor).value_or(0)});
    }
    record_.last_step = std::max(record_.last_step, start_.past.origin.manifest.global_step);
  }

  /// Throws Error(data) when a resumed run has other data, and what sinks throw. A full disk only
  /// causes a warning.
  void on_event(int rank, const events::Event& event) {
    const auto* resumed = std::get_if<events::Resumed>(&event);
    if (resumed == nullptr) return take(rank, event);
    commit_superseded(folder_);
    events::Resumed adjusted = *resumed;
    if (const std::string& why = start_.past.why_not_bitwise; !why.empty()) {
      adjusted.bitwise = false;  // a worker only knows the current config
      adjusted.why_not += (adjusted.why_not.empty() ? "" : "; ") + why;
    }
    take(rank, adjusted);
  }

  void on_tick(const Clock& clock) {
    for (const auto& sink : sinks_) sink->on_tick(clock.now());
  }

  [[nodiscard]] const Sinks& sinks() const { return sinks_; }

 private:
  void take(int rank, const events::Event& event) {
    record_.add(rank, event);
    write_if_possible([&] { log_choices(folder_, rank, event); });
    if (const auto* started = std::get_if<events::RunStarted>(&event)) {
      if (!start_.request.task.accepts_data_change)  // otherwise the worker reports it
        expect_same_data(start_.past.fingerprints, started->data_fingerprints);
      // Versions and data are known from here on; before, the manifest contained only the request.
      write_if_possible(on_started_);
    }
    for (const auto& sink : sinks_) sink->on_event(rank, event);
    for (const auto& sink : sinks_) {
      if (const auto news = sink->take_warning()) warn(*news);
    }
  }

  // Also writes to the log of rank 0, because the console may be the sink that failed.
  void warn(const std::string& message) {
    write_if_possible([&] { log_line(folder_, 0, "warning: " + message); });
    on_event(0, events::Warning{message, {}});
  }

  // A full disk must not end ranks that train or save to another disk.
  template <class Body>
  void write_if_possible(const Body& body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::resource) throw;
      on_event(0, events::Warning{error.what(), {}});
    }
  }

  const Start& start_;
  fs::path folder_;
  report::RunRecord& record_;
  OnStarted on_started_;
  Sinks sinks_;
};

/// State that outlives a start: it decides on further starts and knows the other nodes.
struct RunContext {
  const Attempts& attempts;
  Restarts& restarts;
  CoordinatorRun* nodes = nullptr;  // the other nodes; null: this node only
};

/// Makes one start of a run, from its folder to result.json. Failures are reported in the outcome's
/// ending.
class SupervisedRun {
 public:
  SupervisedRun(const Start& start, const fs::path& folder, const RunContext& context,
                const Clock& clock)
      : start_(start),
        nodes_(context.nodes),
        attempts_(context.attempts),
        restarts_(context.restarts),
        clock_(clock),
        started_(clock.now()),
        manifest_(manifest_before(start)),
        ending_(outcome_.ending),
        events_(start, folder, outcome_.record, [this] { write_manifest(); }) {
    outcome_.folder = folder;
    manifest_.started_at = ending_.started_at = utc_timestamp();
    ending_.run_dir = folder.string();
    ending_.command = typed(start_.request);
    ending_.levers = levers(start_.request.loaded, manifest_.machine);
    ending_.best_mode = best_mode(start_.request.loaded.experiment);
    ending_.resumed_from = state_of(start_.past.origin, folder);
    ending_.trains = trains();
    ending_.wall_s = start_.past.wall_s;
  }

  RunOutcome execute(const MakeSinks& make_sinks) {
    keep_failure([&] {
      write_inputs();
      events_.listen(make_sinks(outcome_.folder));
      report_past();
      import_weights(start_.request, outcome_.folder);
      supervise();
    });
    remove_unfinished(outcome_.folder);
    std::error_code ignored;  // the file is no longer needed
    fs::remove(outcome_.folder / weights::kImportedName, ignored);
    for (const auto& sink : events_.sinks()) keep_failure([&] { sink->close(); });
    // If the workers rejected the checkpoint, the newer checkpoints must not be lost.
    if (trains() && !outcome_.record.resumed) {
      keep_failure([&] {
        if (restore_superseded(outcome_.folder))
          log_line(outcome_.folder, 0, "the run did not resume: its earlier files are restored");
      });
    }
    keep_failure([&] { ending_.profile = profile_of(outcome_.folder); });
    write_result();
    report_end();
    return std::move(outcome_);
  }

 private:
  [[nodiscard]] bool trains() const { return start_.request.task.kind == spec::TaskKind::train; }

  // Failures are reported by the ending, and a later failure does not replace the first.
  template <class Body>
  void keep_failure(const Body& body) {
    try {
      body();
    } catch (const std::exception& error) {
      fail_with(to_error(error));
    }
  }

  void fail_with(const Error& error) {
    if (ending_.exit_code != 0) return;
    ending_.exit_code = error.exit_code();
    ending_.verdict = "failed";
    ending_.message = error.what();
  }

  void write_inputs() {
    // This comes first, so that --resume recognizes the folder of a run that is killed early as
    // training.
    if (trains()) make_folder(outcome_.folder / "checkpoints");
    for (const std::string& note : rename_damaged_files(outcome_.folder))
      log::get().warn("{}", note);
    write_provisional_result();
    reserved_.emplace(outcome_.folder / "result.json", kResultBytes);
    make_folder(outcome_.folder / "logs");
    write_task(start_.request.task, outcome_.folder);
    write_config(start_, outcome_.folder);
    manifest_.plugins = plugin_files(start_.request.loaded.experiment.plugins);
    write_manifest();
  }

  // The result that remains if trainctl itself is killed; it replaces the result of an earlier
  // start.
  void write_provisional_result() {
    ending_.attempts = attempts_.with_last({.verdict = "unfinished"});
    Json result = document();
    result["verdict"] = "unfinished";
    result["exit_code"] = nullptr;
    if (result.contains("attempts")) result["attempts"].back()["exit_code"] = nullptr;
    result["message"] = fmt::format(
        "no final result: the run is still running, or trainctl was killed{}",
        trains() ? "; to resume it, run 'trainctl run --resume " + outcome_.folder.string() + "'"
                 : "");
    write_atomically(outcome_.folder / "result.json", to_pretty(result) + "\n");
  }

  void write_manifest() const {
    write_atomically(outcome_.folder / "manifest.json",
                     to_pretty(manifest(manifest_, outcome_.record)) + "\n");
  }

  /// Reports the earlier attempts and starts to the sinks.
  void report_past() {
    events_.recall_epochs();
    using StartFrom = Attempts::StartFrom;
    const StartFrom start_from =
        start_.past.origin.checkpoint.empty() ? StartFrom::beginning : StartFrom::checkpoint;
    if (attempts_.is_another())
      events_.on_event(0, events::Warning{attempts_.notice(start_from), {}});
    for (const std::string& notice : start_.past.notices) {
      log_line(outcome_.folder, 0, notice);
      events_.on_event(0, events::Warning{notice, {}});
    }
  }

  void supervise() {
    const spec::Experiment& experiment = start_.request.loaded.experiment;
    const DeviceChoice devices =
        devices_of_run(experiment, manifest_.machine, [] { return launch::probe_gpus(); });
    if (!devices.warning.empty()) events_.on_event(0, events::Warning{devices.warning});
    const std::string address =
        nodes_ == nullptr ? "" : group_address(experiment, nodes_->local_address());
    launch::LaunchSpec launch =
        launch_spec({start_.request, outcome_.folder, manifest_.machine, devices, address});
    if (nodes_ != nullptr) launch.coordinator = &nodes_->coordinator();
    outcome_.record.planned_ranks = launch.world_size;
    manifest_.thread_waiting =
        launch.omp_wait_policy == launch::OmpWaitPolicy::spin ? "spin" : "sleep";
    const int ranks = launch.ranks_here();
    log::get().debug("starting {} worker{}: {};{}", ranks, plural(ranks),
                     printable(join(launch.argv, " ")), pairs(launch.environment));
    const launch::Outcome ended = launch::supervise(
        launch, [&](int rank, const auto& event) { events_.on_event(rank, event); },
        [&] { events_.on_tick(clock_); }, clock_);
    ending_.exit_code = ended.exit_code;
    ending_.verdict = ended.verdict;
    ending_.message = ended.message;
    ending_.first_failure = ended.first_failure;
  }

  void write_result() {
    ending_.wall_s = start_.past.wall_s + clock_.now() - started_;
    if (trains()) {
      const bool had_none = start_.past.origin.checkpoint.empty() || outcome_.record.resumed;
      restarts_.decide(ending_, had_none ? nullptr : &start_.past.origin);
      ending_.checkpoint = newest_state(outcome_.folder);
      ending_.resume_command = resume_command(start_.request, ending_);
    }
    ending_.attempts = attempts_.with_last(ending_);
    outcome_.result = document();
    try {
      ENSURE(resource, reserved_.has_value(), "cannot reserve space for result.json");
      reserved_->publish(to_pretty(outcome_.result) + "\n");
    } catch (const Error& error) {
      outcome_.write_error = error.what();
      fail_with(error);
      ending_.attempts = attempts_.with_last(ending_);
      outcome_.result = document();
    }
  }

  // After this point only the console shows failures of sinks. All sinks receive the end before any
  // of them is closed, so that commands end in parallel.
  void report_end() {
    const bool will_restart = restarts_.next() || attempts_.has_next(ending_);
    Json result = outcome_.result;
    if (will_restart) result["will_restart"] = true;
    const auto attempt = [](const auto& step) {
      try {
        step();
      } catch (const std::exception& error) {
        log::get().warn("a logger failed at the end of the run: {}", error.what());
      }
    };
    for (const auto& sink : events_.sinks()) attempt([&] { sink->on_end(result); });
    for (const auto& sink : events_.sinks()) {
      attempt([&] { sink->finish(); });
      if (const auto news = sink->take_warning()) log::get().warn("{}", *news);
    }
  }

  [[nodiscard]] Json document() const {
    return trains() ? report::result_document(outcome_.record, ending_)
                    : report::evaluation_document(outcome_.record, ending_);
  }

  static constexpr std::uint64_t kResultBytes = 1 << 16;

  const Start& start_;
  CoordinatorRun* nodes_;
  const Attempts& attempts_;
  Restarts& restarts_;
  const Clock& clock_;
  double started_;
  ManifestInput manifest_;
  RunOutcome outcome_;
  report::RunResult& ending_;  // part of outcome_
  RunEvents events_;
  std::optional<ReservedFile> reserved_;
};

/// Returns the value to raise if a limit of the request is reached; else empty.
std::string reached_limit(const RunRequest& request, const checkpoint::Manifest& manifest) {
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  const std::int64_t done = manifest.epoch;
  if (const auto epochs = trainer.epoch_limit(); epochs && done >= *epochs)
    return fmt::format("raise trainer.max_epochs ({} of {} epochs are done)", done, *epochs);
  if (trainer.max_steps && manifest.global_step >= *trainer.max_steps)
    return fmt::format("raise trainer.max_steps ({} of {} steps are done)",
                       with_thousands(manifest.global_step), with_thousands(*trainer.max_steps));
  if (request.task.until_epoch && done >= *request.task.until_epoch)
    return fmt::format("raise --until-epoch ({} of {} epochs are done)", done,
                       *request.task.until_epoch);
  return "";
}

std::string reached_end(const RunRequest& request, const Json& values) {
  const std::string early = report::text_at(values, "early_reason");
  if (!early.empty())
    return fmt::format("early stopping ended the run ({}); start a new run to train longer",
                       printable(early));
  const auto& max_time = request.loaded.experiment.trainer.max_time;
  const auto most_s = max_time ? spec::parse_duration(*max_time) : std::nullopt;
  const auto elapsed_s = exact_double(report::text_at(values, "elapsed_s"));
  if (!most_s || !elapsed_s || *elapsed_s < *most_s) return "";
  return fmt::format("raise trainer.max_time ({} is used up)", *max_time);
}

/// Returns the outcome of a successful run whose checkpoint is at its end: by trainer.max_epochs,
/// max_steps, max_time, early stopping or --until-epoch. `result` is its result.json. Returns
/// nullopt if there is something left to train.
std::optional<RunOutcome> complete_run(const RunRequest& request, const fs::path& run_dir,
                                       const ResumeOrigin& origin) {
  if (origin.checkpoint.empty()) return std::nullopt;
  Json result = read_object(run_dir / "result.json");
  if (report::member(result, "verdict") != "ok") return std::nullopt;
  std::string why = reached_limit(request, origin.manifest);
  if (why.empty()) {
    const fs::path part = origin.checkpoint / checkpoint::part_name(0);
    why = reached_end(request, checkpoint::contents_of_file(part).training);
  }
  if (why.empty()) return std::nullopt;
  expect_same_experiment(request.loaded, run_dir, origin, world_size_of(request));
  RunOutcome outcome;
  outcome.folder = run_dir;
  outcome.ending.run_dir = run_dir.string();
  outcome.result = std::move(result);
  outcome.complete = "already complete: " + why;
  return outcome;
}

// Returns false if a signal came.
bool wait_for_memory(const FreeMemory& before, launch::SignalGuard& guard, const Clock& clock) {
  constexpr auto kPause = std::chrono::milliseconds(250);
  const bool is_back =
      wait_for_free_memory(before, {.probe = [] { return free_device_memory(); },
                                    .is_stopped = [&] { return guard.received_stop(); },
                                    .pause = [&] { std::this_thread::sleep_for(kPause); },
                                    .clock = clock});
  if (guard.received_stop()) return false;
  if (!is_back)
    log::get().warn(
        "a GPU still has less free memory than before the first start; the run restarts anyway");
  return true;
}

void check_nodes(const RunRequest& request) {
  const int nodes = request.loaded.experiment.trainer.num_nodes;
  const bool trains = request.task.kind == spec::TaskKind::train;
  ENSURE(config, !trains || request.nodes || nodes == 1,
         "trainer.num_nodes is {}, but only 'trainctl run' with --rdzv-endpoint and --node-rank "
         "starts ranks on several nodes\nhint: add these flags to 'trainctl run', or set "
         "trainer.num_nodes=1",
         nodes);
}

class AttemptLoop {
 public:
  AttemptLoop(const RunRequest& request, FolderRequest folder_request, const RunFolder& folder,
              launch::SignalGuard& guard)
      : folder_request_(std::move(folder_request)),
        folder_(folder.path),
        guard_(guard),
        attempts_(request, folder.path) {
    if (request.nodes && !request.nodes->is_alone()) nodes_.emplace(request, folder.path, guard);
  }

  RunOutcome execute(const MakeSinks& make_sinks, const Clock& clock) {
    try {
      RunOutcome outcome = run(make_sinks, clock);
      if (nodes_) nodes_->end(outcome.ending);
      return outcome;
    } catch (const Error& error) {
      if (nodes_ && !nodes_->has_ended())
        nodes_->end({.verdict = "failed", .exit_code = error.exit_code(), .message = error.what()});
      throw;
    }
  }

 private:
  RunOutcome run(const MakeSinks& make_sinks, const Clock& clock) {
    const RunRequest first = attempts_.current();
    ResumeOrigin origin = first_origin(first, folder_);
    if (first.resume) {
      if (auto complete = complete_run(first, folder_, origin)) {
        for (const std::string& note : damaged_files(folder_)) log::get().warn("{}", note);
        return std::move(*complete);
      }
      log::get().info("{}", resume_notice(folder_request_, folder_, origin));
    }
    Start start = first_start(first, folder_, std::move(origin));
    const spec::Trainer& trainer = start.request.loaded.experiment.trainer;
    Restarts restarts(trainer.max_restarts, folder_, start.past.origin);
    const FreeMemory free_before = memory_before(trainer);
    const RunContext context{attempts_, restarts, nodes_ ? &*nodes_ : nullptr};
    for (;;) {
      RunOutcome outcome = SupervisedRun(start, folder_, context, clock).execute(make_sinks);
      if (guard_.received_stop())
        return outcome;  // also a signal that came while the workers exited
      const bool is_over = !restarts.next() && !attempts_.has_next(outcome.ending);
      if (is_over || !wait_for_memory(free_before, guard_, clock)) return outcome;
      try {
        if (auto again = attempts_.after(outcome.ending)) {
          start = {std::move(*again), {}};
          restarts.reset_progress();
        } else {
          start = restarted(start.request, folder_, restarts);
        }
      } catch (const Error& error) {
        log::get().warn("cannot start another attempt: {}", error.what());
        return outcome;
      }
    }
  }

  FolderRequest folder_request_;
  fs::path folder_;
  launch::SignalGuard& guard_;
  Attempts attempts_;
  std::optional<CoordinatorRun> nodes_;
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
         "loader.batch_size is auto, which only 'trainctl run' can determine\nhint: set a number, "
         "as in loader.batch_size=64");
  check_nodes(request);
  launch::SignalGuard guard;  // a signal after the workers have exited must not lose the result
  std::optional<RunFolder> folder;
  std::optional<AttemptLoop> attempt_loop;
  try {
    FolderRequest folder_request =
        request.resume ? resumed_folder(request.folder, *request.resume) : request.folder;
    folder.emplace(make_run_folder(folder_request));
    attempt_loop.emplace(request, std::move(folder_request), *folder, guard);
  } catch (const Error& error) {
    if (request.nodes && !request.nodes->is_alone()) report_failure(request, error, guard);
    throw;
  }
  return attempt_loop->execute(make_sinks, clock);
}

}  // namespace trainctl::study
