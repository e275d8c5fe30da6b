#include "study/run/supervised_run.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/supervise/verdict.hpp"
#include "log/log.hpp"
#include "report/record/run_files.hpp"
#include "report/text/job_results.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/resume/run_history.hpp"
#include "study/run/run_events.hpp"
#include "study/workers/devices.hpp"
#include "study/workers/worker_launch.hpp"

#include <system_error>

namespace trainctl::study {
namespace {

class SupervisedRun {
 public:
  SupervisedRun(const Start& start, const RunContext& context, const Clock& clock)
      : start_(start),
        nodes_(context.nodes),
        attempts_(context.attempts),
        restarts_(context.restarts),
        clock_(clock),
        started_(clock.now()),
        manifest_(manifest_before(start)),
        ending_(outcome_.ending),
        events_(start, context.folder, outcome_.record, [this] { write_manifest(); }) {
    outcome_.folder = context.folder;
    manifest_.started_at = ending_.started_at = utc_timestamp();
    ending_.run_dir = context.folder.string();
    ending_.command = typed(start_.request);
    ending_.levers = levers(start_.request.loaded, manifest_.machine);
    ending_.best_mode = best_mode(start_.request.loaded.experiment);
    ending_.resumed_from = state_of(start_.past.origin, context.folder);
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
  [[nodiscard]] bool trains() const { return start_.request.job.kind == spec::JobKind::train; }

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
    write_job(start_.request.job, outcome_.folder);
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

RunOutcome run_once(const Start& start, const RunContext& context, const MakeSinks& make_sinks,
                    const Clock& clock) {
  return SupervisedRun(start, context, clock).execute(make_sinks);
}

}  // namespace trainctl::study
