#include "study/run.hpp"

#include "launch/signals.hpp"
#include "log/log.hpp"
#include "spec/monitor.hpp"
#include "study/attempts.hpp"
#include "study/device_memory.hpp"
#include "study/restarts.hpp"
#include "study/run_start.hpp"
#include "study/supervised_run.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

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
    RunOutcome outcome =
        SupervisedRun(start, folder.path, {attempts, restarts}, clock).execute(make_sinks);
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
