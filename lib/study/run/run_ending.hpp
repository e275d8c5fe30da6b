#pragma once

#include "base/machine/machine.hpp"
#include "report/record/run_result.hpp"
#include "study/resume/resume.hpp"
#include "study/run/run.hpp"

#include <optional>
#include <string>

// The parts of a run's ending that do not come from the events of its workers.

namespace trainctl::study {

/// Returns the command line that started the run.
report::Command typed(const RunRequest& request);

/// Returns the direction in which the run's monitor improves.
report::BestMode best_mode(const spec::Experiment& experiment);

/// Returns the settings that advice may change, with the values that the experiment accepts.
report::AdviceSettings levers(const spec::Loaded& loaded, const Machine& machine);

/// Returns the path of the run's profile and its first line; empty if no profile was recorded.
std::string profile_of(const fs::path& run_dir);

/// Returns the checkpoint of an origin; nullopt for the first step.
std::optional<report::SavedState> state_of(const ResumeOrigin& origin, const fs::path& run_dir);

/// Returns the newest checkpoint of the folder. It is not verified again, because each checkpoint
/// was read back before its manifest was written.
std::optional<report::SavedState> newest_state(const fs::path& run_dir);

/// Returns the wall seconds of the run's earlier starts according to result.json. A start that was
/// killed counts until the last modification of its files. Returns 0 for a new folder.
double earlier_wall_s(const fs::path& run_dir);

/// Returns whether the file is directly in the folder.
bool lies_in(const fs::path& file, const fs::path& folder);

/// Returns the command that resumes a run that ended like this. Empty if there is no checkpoint, or
/// if the same failure would occur again: a config error, a loss that is not finite, a checkpoint
/// error.
std::string resume_command(const RunRequest& request, const report::RunResult& ending);

}  // namespace trainctl::study
