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

/// Moves the same files aside to corrupt-NAME and returns a sentence about each. Only for a start
/// that holds the lock of the folder and writes these files next. Throws Error(resource).
std::vector<std::string> move_damaged_aside(const fs::path& run_dir);

/// Returns the text of config.resolved.yaml, or the copy in the newest checkpoint if that file is
/// missing or damaged. Returns nothing if there is neither.
std::optional<std::string> resolved_config_of(const fs::path& run_dir);

/// Writes config.resolved.yaml again from the newest checkpoint if it is missing or damaged, and
/// returns a sentence about it; empty if nothing was wrong, if no checkpoint has a copy, or if
/// another process trains the run.
std::string restore_if_possible(const fs::path& run_dir);

/// The same, but throws Error(config) that names the folder and the remedy if the file cannot be
/// restored.
std::string restore_resolved_config(const fs::path& run_dir);

/// Sentences about damaged lines of metrics.jsonl and of the tables that count epochs. A last line
/// that was cut off is none. Throws Error(resource).
std::vector<std::string> damaged_history(const fs::path& run_dir);

/// Removes what the processes of a run, which are gone, had not finished to write, in the folders
/// below as well: ".NAME.tmp.PID" and ".NAME.reserved.PID", but nothing of this process, and the
/// checkpoints that were begun and not committed. For whoever holds the lock of the folder. What
/// cannot be removed stays.
void remove_unfinished(const fs::path& run_dir);

}  // namespace trainctl::study
