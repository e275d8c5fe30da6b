#include "study/run/supervised_run.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/supervise/verdict.hpp"
#include "log/log.hpp"
#include "report/record/run_result.hpp"
#include "report/text/run_summary.hpp"
#include "report/text/task_results.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/folder/folder_repair.hpp"
#include "study/nodes/node_run.hpp"
#include "study/resume/run_history.hpp"
#include "study/run/run_ending.hpp"
#include "study/run/run_inputs.hpp"
#include "study/workers/devices.hpp"
#include "study/workers/worker_launch.hpp"
#include "weights/import.hpp"

#include <algorithm>
#include <system_error>
#include <utility>
#include <variant>

namespace trainctl::study {
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

}  // namespace

RunOutcome supervise_run(const Start& start, const fs::path& folder, const RunContext& context,
                         const MakeSinks& make_sinks, const Clock& clock) {
  return SupervisedRun(start, folder, context, clock).execute(make_sinks);
}

}  // namespace trainctl::study
