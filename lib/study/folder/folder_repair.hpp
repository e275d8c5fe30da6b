#pragma once

#include "base/files.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// Returns a sentence about each damaged file of a run folder among those that every start writes
/// again (task.json, result.json, manifest.json, config.resolved.yaml). Changes nothing. Throws
/// Error(resource).
std::vector<std::string> damaged_files(const fs::path& run_dir);

/// Moves the same files to corrupt-NAME and returns a sentence about each. The caller must hold the
/// lock of the folder and write these files next. Throws Error(resource).
std::vector<std::string> rename_damaged_files(const fs::path& run_dir);

/// Returns the text of config.resolved.yaml, or the copy in the newest checkpoint if that file is
/// missing or damaged. Returns nothing if there is neither.
std::optional<std::string> resolved_config_of(const fs::path& run_dir);

/// Writes config.resolved.yaml again from the newest checkpoint if it is missing or damaged, and
/// returns a sentence about it. Empty if the file was valid, if no checkpoint has a copy, or if
/// another process is training the run.
std::string restore_if_possible(const fs::path& run_dir);

/// Same, but throws Error(config) that names the folder if the file cannot be restored.
std::string restore_resolved_config(const fs::path& run_dir);

/// Returns sentences about damaged lines of metrics.jsonl and of the tables with a row per epoch. A
/// truncated last line is not reported as damage. Throws Error(resource).
std::vector<std::string> damaged_history(const fs::path& run_dir);

/// Removes unfinished files of a run's exited processes, also in subfolders: ".NAME.tmp.PID" and
/// ".NAME.reserved.PID", except those of this process, and checkpoints that were never committed.
/// The caller must hold the lock of the folder. Files that cannot be removed stay.
void remove_unfinished(const fs::path& run_dir);

}  // namespace trainctl::study
