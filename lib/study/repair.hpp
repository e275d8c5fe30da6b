#pragma once

#include "base/files.hpp"

#include <string>
#include <vector>

namespace trainctl::study {

/// Moves damaged files of a run folder that every start writes again (task.json, result.json,
/// manifest.json, config.resolved.yaml) aside to corrupt-NAME, and says so in a sentence each. For
/// whoever holds the lock of the folder. Throws Error(resource).
std::vector<std::string> move_damaged_aside(const fs::path& run_dir);

/// Writes config.resolved.yaml again from the newest checkpoint where it is missing or damaged, and
/// says so; empty where nothing was wrong. A run that is being trained is left alone. Throws
/// Error(config) that names the folder and the remedy where no checkpoint tells it.
std::string restore_resolved_config(const fs::path& run_dir);

/// Sentences about damaged lines of metrics.jsonl and of the tables that count epochs. A last line
/// that was cut off is none. Throws Error(resource).
std::vector<std::string> damaged_history(const fs::path& run_dir);

}  // namespace trainctl::study
