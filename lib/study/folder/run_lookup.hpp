#pragma once

#include "base/files.hpp"
#include "study/folder/run_needs.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

struct RunSearch {
  std::optional<fs::path> run;    // the newest that has what is needed
  std::vector<fs::path> skipped;  // newer runs that lack it
};

/// Searches the runs of an experiment below `root`, in the order of newest_first().
RunSearch newest_run(const fs::path& root, const std::string& name, RunNeeds needs);

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
