#include "study/bench/trial.hpp"

#include "base/bounded_text.hpp"
#include "base/error.hpp"
#include "launch/supervise/verdict.hpp"
#include "study/bench/deadline.hpp"

#include <fmt/format.h>

namespace trainctl::study {
namespace {

/// A second attempt or a restart would be timed as the first.
RunRequest one_attempt(RunRequest request) {
  request.loaded.experiment.trainer.max_restarts = 0;
  request.loaded.experiment.trainer.on_divergence.clear();
  return request;
}

}  // namespace

TrialResult run_trial(const RunRequest& request, const Clock& clock,
                      std::optional<double> ends_at) {
  const Deadline deadline(ends_at);
  try {
    const RunOutcome run = run_experiment(
        one_attempt(request), [&](const fs::path& /*run_dir*/) { return deadline.sinks(); }, clock);
    const report::Ending& ending = run.ending;
    if (ending.exit_code == 0) return report::trial_of(run.record, ending.wall_s);
    const std::string cause =
        ending.message.empty() ? "the run ended as " + ending.verdict : ending.message;
    return report::TrialFailure{.exit_code = ending.exit_code,
                                .message = with_reference(cause, run.folder.string()),
                                .overdue = deadline.has_struck()};
  } catch (const Error&
               error) {  // no folder could be made: the runs before it are still worth their table
    return report::TrialFailure{error.exit_code(), error.what()};
  }
}

WarmUp warm_up(const RunRequest& request, const Clock& clock, std::optional<double> ends_at) {
  const Deadline deadline(ends_at);
  const RunOutcome run = run_experiment(
      one_attempt(request), [&](const fs::path& /*run_dir*/) { return deadline.sinks(); }, clock);
  WarmUp found{.threads = {},
               .channels_last = {},
               .taken = 0,
               .stopped = {},
               .overdue = deadline.has_struck()};
  if (launch::is_stop_code(run.ending.exit_code)) found.stopped = run.ending.exit_code;
  if (run.record.started) {
    found.threads = run.record.started->num_threads;
    found.channels_last = run.record.started->channels_last;
    found.taken = run.record.started->num_threads_taken;
  }
  return found;
}

}  // namespace trainctl::study
