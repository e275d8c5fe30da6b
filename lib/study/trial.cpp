#include "study/trial.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

namespace trainctl::study {

report::Trial run_trial(const RunRequest& request, const Clock& clock) {
  const RunOutcome run = run_experiment(
      request, [](const fs::path&) { return Sinks(); }, clock);
  const report::Ending& ending = run.ending;
  if (ending.exit_code != 0) {
    const std::string cause = ending.message.empty() ? "the run ended as " + ending.verdict : ending.message;
    throw Error(static_cast<ErrorKind>(ending.exit_code), fmt::format("{}; see {}", cause, run.folder.string()));
  }
  return report::trial_of(run.record, ending.wall_s);
}

}  // namespace trainctl::study
