#include "study/run/run.hpp"

#include "launch/process/signals.hpp"
#include "log/log.hpp"
#include "spec/experiment/monitor.hpp"
#include "study/folder/folder_repair.hpp"
#include "study/nodes/coordinator_run.hpp"
#include "study/run/attempts.hpp"
#include "study/run/complete_run.hpp"
#include "study/run/restarts.hpp"
#include "study/run/run_start.hpp"
#include "study/run/supervised_run.hpp"
#include "study/workers/device_memory.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace trainctl::study {
namespace {

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

/// The nodes of a config that nobody would start.
void check_nodes(const RunRequest& request) {
  const int nodes = request.loaded.experiment.trainer.num_nodes;
  const bool trains = request.task.kind == spec::TaskKind::train;
  ENSURE(config, !trains || request.nodes || nodes == 1,
         "trainer.num_nodes is {}, but only 'trainctl run' starts ranks on several nodes, and it "
         "has to know where they meet: add --rdzv-endpoint and --node-rank there, or "
         "trainer.num_nodes=1 here",
         nodes);
}

report::Ending ending_of(const Error& error) {
  report::Ending ending;
  ending.exit_code = error.exit_code();
  ending.verdict = "failed";
  ending.message = error.what();
  return ending;
}

/// Attempt after attempt.
class Attempting {
 public:
  /// `asked`: of which `folder` was made.
  Attempting(const RunRequest& request, FolderRequest asked, const RunFolder& folder,
             launch::SignalGuard& guard)
      : asked_(std::move(asked)),
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
      if (nodes_ && !nodes_->has_ended()) nodes_->end(ending_of(error));
      throw;
    }
  }

 private:
  RunOutcome run(const MakeSinks& make_sinks, const Clock& clock);

  FolderRequest asked_;
  fs::path folder_;
  launch::SignalGuard& guard_;
  Attempts attempts_;
  std::optional<HeadRun> nodes_;
};

RunOutcome Attempting::run(const MakeSinks& make_sinks, const Clock& clock) {
  const RunRequest first = attempts_.current();
  Origin origin = first_origin(first, folder_);
  if (first.resume) {
    if (auto complete = complete_run(first, folder_, origin)) {
      for (const std::string& note : damaged_files(folder_)) log::get().warn("{}", note);
      return std::move(*complete);
    }
    log::get().info("{}", resume_notice(asked_, folder_, origin));
  }
  Start start = first_start(first, folder_, std::move(origin));
  const spec::Trainer& trainer = start.request.loaded.experiment.trainer;
  Restarts restarts(trainer.max_restarts, folder_, start.past.origin);
  const FreeMemory free_before = memory_before(trainer);
  const Course course{attempts_, restarts, nodes_ ? &*nodes_ : nullptr};
  for (;;) {
    RunOutcome outcome = SupervisedRun(start, folder_, course, clock).execute(make_sinks);
    if (guard_.has_heard()) return outcome;  // also one that came while the workers ended
    const bool is_over = !restarts.next() && !attempts_.has_next(outcome.ending);
    if (is_over || !wait_for_memory(free_before, guard_, clock)) return outcome;
    try {
      if (auto again = attempts_.after(outcome.ending)) {
        start = {std::move(*again), {}};
        restarts.begin_anew();
      } else {
        start = restarted(start.request, folder_, restarts);
      }
    } catch (const Error& error) {
      log::get().warn("there is no further attempt: {}", error.what());
      return outcome;
    }
  }
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
  check_nodes(request);
  launch::SignalGuard guard;  // a signal after the last worker has gone must not cost the result
  std::optional<RunFolder> folder;
  std::optional<Attempting> attempting;
  try {
    FolderRequest asked =
        request.resume ? resumed_folder(request.folder, *request.resume) : request.folder;
    folder.emplace(make_run_folder(asked));
    attempting.emplace(request, std::move(asked), *folder, guard);
  } catch (const Error& error) {
    if (request.nodes && !request.nodes->is_alone()) tell_of_failure(request, error, guard);
    throw;
  }
  return attempting->execute(make_sinks, clock);
}

}  // namespace trainctl::study
