#pragma once

#include "base/files.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// The folders of training runs of that experiment name below `root`, newest first by their names,
/// which begin with the time. Empty where there are none, or the folder cannot be read.
std::vector<fs::path> training_runs(const fs::path& root, const std::string& name);

/// The run folder that a word of the command line means: that folder itself; `latest` for the
/// newest run below `root`; `NAME` for the newest run of an experiment below `root`; or a folder
/// that holds runs, for the newest of them. Nothing where there is none.
std::optional<fs::path> run_called(const std::string& word, const fs::path& root);

/// The same. Throws Error(config) that says what was looked for.
fs::path find_run(const std::string& word, const fs::path& root);

}  // namespace trainctl::study
