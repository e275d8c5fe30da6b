#pragma once

#include "base/files.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// The folders of training runs of that experiment name below `root`, newest first by their names,
/// which begin with the time. Empty where there are none, or the folder cannot be read.
std::vector<fs::path> training_runs(const fs::path& root, const std::string& name);

/// What a verb needs of a run that is named by its experiment: a run that failed at its start has
/// no checkpoint, and `eval NAME` means the one before it. `checkpoint` is for resuming, where a
/// run that is being trained is never skipped: its lock refuses a second one.
enum class RunNeeds { nothing, weights, checkpoint };

struct NamedRun {
  fs::path folder;
  std::vector<fs::path> skipped;  // newer runs that lack what is needed
};

/// Returns the run folder that a word of the command line means: that folder itself; `latest` for
/// the newest run below `root`; `NAME` for the newest run of an experiment below `root`; or a
/// folder that holds runs, for the newest of them. If no run has what is needed, the newest of all.
/// Returns nothing if there is no run.
std::optional<NamedRun> run_called(const std::string& word, const fs::path& root,
                                   RunNeeds needs = RunNeeds::nothing);

/// Returns the folder that run_called() finds. Throws Error(config) that says what was looked for.
fs::path find_run(const std::string& word, const fs::path& root);

}  // namespace trainctl::study
