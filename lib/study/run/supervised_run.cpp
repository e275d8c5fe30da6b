#include "study/run/supervised_run.hpp"

#include "base/error.hpp"
#include "log/log.hpp"
#include "report/record/run_result.hpp"
#include "report/text/task_results.hpp"
#include "study/folder/folder_repair.hpp"
#include "study/nodes/coordinator_run.hpp"
#include "study/resume/run_history.hpp"
#include "study/run/run_ending.hpp"
#include "study/run/run_inputs.hpp"
#include "study/workers/devices.hpp"
#include "study/workers/worker_launch.hpp"
#include "weights/import.hpp"

#include <system_error>
#include <utility>

namespace trainctl::study {
SupervisedRun::SupervisedRun(const Start& start, const fs::path& folder, const Course& course,
                             const Clock& clock)
    : start_(start),
      nodes_(course.nodes),
      attempts_(course.attempts),
      restarts_(course.restarts),
      clock_(clock),
      started_(clock.now()),
      manifest_(manifest_before(start)),
      events_(start, folder, outcome_.record, [this] { write_manifest(); }) {
  outcome_.folder = folder;
  outcome_.ending.started_at = utc_timestamp();
  manifest_.started_at = outcome_.ending.started_at;
  outcome_.ending.run_dir = outcome_.folder.string();
  outcome_.ending.command = typed(start_.request);
  outcome_.ending.levers = levers(start_.request.loaded, manifest_.machine);
  outcome_.ending.best_mode = best_mode(start_.request.loaded.experiment);
  outcome_.ending.resumed_from = state_of(start_.past.origin, folder);
  outcome_.ending.trains = trains();
  outcome_.ending.wall_s = start_.past.wall_s;
}

bool SupervisedRun::trains() const { return start_.request.task.kind == spec::TaskKind::train; }

// What goes wrong is told by the ending; a later failure does not hide the first.
template <class Body>
void SupervisedRun::keep_failure(const Body& body) {
  try {
    body();
  } catch (const std::exception& error) {
    fail_with(to_error(error));
  }
}

RunOutcome SupervisedRun::execute(const MakeSinks& make_sinks) {
  keep_failure([&] {
    write_inputs();
    events_.listen(make_sinks(outcome_.folder));
    say_what_was();
    import_weights(start_.request, outcome_.folder);
    supervise();
  });
  remove_unfinished(outcome_.folder);
  std::error_code ignored;  // nobody needs it any more
  fs::remove(outcome_.folder / weights::kImportedName, ignored);
  for (const auto& sink : events_.sinks()) keep_failure([&] { sink->close(); });
  if (trains() && !outcome_.record.resumed) keep_failure([&] { undo_continuation(); });
  keep_failure([&] { outcome_.ending.profile = profile_of(outcome_.folder); });
  write_result();
  tell_end();
  return std::move(outcome_);
}

// Nobody listens any more to what sinks find out now, but for the console. All hear of the end
// before any is waited for: so commands end beside each other.
void SupervisedRun::tell_end() {
  const bool goes_on = restarts_.next() || attempts_.has_next(outcome_.ending);
  Json told = outcome_.result;
  if (goes_on) told["goes_on"] = true;
  const auto tell = [](const auto& step) {
    try {
      step();
    } catch (const std::exception& error) {
      log::get().warn("a logger failed at the end of the run: {}", error.what());
    }
  };
  for (const auto& sink : events_.sinks()) tell([&] { sink->on_end(told); });
  for (const auto& sink : events_.sinks()) {
    tell([&] { sink->finish(); });
    if (const auto news = sink->news()) log::get().warn("{}", *news);
  }
}

void SupervisedRun::write_inputs() {
  // First: a run that is killed at once leaves a folder that --resume knows for one of training.
  if (trains()) make_folder(outcome_.folder / "checkpoints");
  for (const std::string& note : move_damaged_aside(outcome_.folder)) log::get().warn("{}", note);
  write_provisional_result();
  reserved_.emplace(outcome_.folder / "result.json", kResultBytes);
  make_folder(outcome_.folder / "logs");
  write_task(start_.request.task, outcome_.folder);
  write_config(start_, outcome_.folder);
  manifest_.plugins = plugin_files(start_.request.loaded.experiment.plugins);
  write_manifest();
}

// What stays where trainctl itself is killed; that of an earlier start may not.
void SupervisedRun::write_provisional_result() {
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

void SupervisedRun::write_manifest() const {
  study::write_manifest(manifest_, outcome_.record, outcome_.folder);
}

void SupervisedRun::say_what_was() {
  events_.recall_epochs();
  using Begins = Attempts::Begins;
  const Begins begins = start_.past.origin.checkpoint.empty() ? Begins::anew : Begins::later;
  if (attempts_.is_another()) events_.on_event(0, events::Warning{attempts_.notice(begins), {}});
  for (const std::string& notice : start_.past.notices) {
    events_.log().tell(0, notice);
    events_.on_event(0, events::Warning{notice, {}});
  }
}

// What refused the checkpoint must not cost the newer ones.
void SupervisedRun::undo_continuation() {
  if (take_back(outcome_.folder))
    events_.log().tell(0, "the run has not gone on: what was put aside for it is back");
}

void SupervisedRun::supervise() {
  const DeviceChoice devices =
      choose_devices(start_.request.loaded.experiment.trainer, manifest_.machine,
                     [] { return launch::probe_gpus(); });
  if (!devices.warning.empty()) events_.on_event(0, events::Warning{devices.warning});
  const spec::Experiment& experiment = start_.request.loaded.experiment;
  const std::string address =
      nodes_ == nullptr ? "" : group_address(experiment, nodes_->local_address());
  launch::LaunchSpec launch =
      launch_spec({start_.request, outcome_.folder, manifest_.machine, devices, address});
  if (nodes_ != nullptr) launch.head = &nodes_->head();
  outcome_.record.planned_ranks = launch.world_size;
  manifest_.thread_waiting = launch.waiting == launch::Waiting::spin ? "spin" : "sleep";
  events_.log().starts(launch);
  end_as(launch::supervise(
      launch, [&](int rank, const auto& event) { events_.on_event(rank, event); },
      [&] { events_.on_tick(clock_); }, clock_));
}

void SupervisedRun::end_as(const launch::Outcome& outcome) {
  report::Ending& ending = outcome_.ending;
  ending.exit_code = outcome.exit_code;
  ending.verdict = outcome.verdict;
  ending.message = outcome.message;
  if (outcome.first_failure) ending.first_failure = told(*outcome.first_failure);
}

void SupervisedRun::fail_with(const Error& error) {
  if (outcome_.ending.exit_code != 0) return;
  outcome_.ending.exit_code = error.exit_code();
  outcome_.ending.verdict = "failed";
  outcome_.ending.message = error.what();
}

void SupervisedRun::write_result() {
  report::Ending& ending = outcome_.ending;
  ending.wall_s = start_.past.wall_s + clock_.now() - started_;
  if (trains()) {
    const bool had_none = start_.past.origin.checkpoint.empty() || outcome_.record.resumed;
    restarts_.judge(ending, had_none ? nullptr : &start_.past.origin);
    ending.checkpoint = newest_state(outcome_.folder);
    ending.resume_command = resume_command(start_.request, ending);
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

Json SupervisedRun::document() const {
  return trains() ? report::result_document(outcome_.record, outcome_.ending)
                  : report::evaluation_document(outcome_.record, outcome_.ending);
}

}  // namespace trainctl::study
