#pragma once

#include "base/machine/machine.hpp"
#include "launch/supervise/supervisor.hpp"
#include "report/record/run_result.hpp"
#include "study/resume/resume.hpp"
#include "study/run/run.hpp"

#include <optional>
#include <string>

// What the ending of a run tells beside the events of its workers.

namespace trainctl::study {

report::FirstFailure told(const launch::RankFailure& failure);

/// The command that was typed.
report::Command typed(const RunRequest& request);

/// By which the best of its monitor is found.
report::BestMode best_mode(const spec::Experiment& experiment);

/// What advice may change of the experiment, and whether it would be accepted.
report::Levers levers(const spec::Loaded& loaded, const Machine& machine);

/// Where the profile of a run is, and its first line; empty where nothing was recorded.
std::string profile_of(const fs::path& run_dir);

/// The checkpoint of an origin; nothing for the first step.
std::optional<report::SavedState> state_of(const Origin& origin, const fs::path& run_dir);

/// The newest checkpoint of the folder. Each was read back before it got its manifest; it is not
/// read again.
std::optional<report::SavedState> newest_state(const fs::path& run_dir);

/// Seconds that the earlier starts of the run took, by its result.json; of a start that was killed
/// without an end, until its files last grew, by their modification times. 0 where the folder is
/// new.
double earlier_wall_s(const fs::path& run_dir);

bool lies_in(const fs::path& file, const fs::path& folder);

/// What goes on with a run that ended so; empty where there is nothing to go on from, or where the
/// same end would come again: a config error, a loss that is not finite, a checkpoint error.
std::string resume_command(const RunRequest& request, const report::Ending& ending);

}  // namespace trainctl::study
