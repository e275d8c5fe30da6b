#pragma once

#include "base/files.hpp"
#include "checkpoint/manifest.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace trainctl::study {

/// The position where a run resumes: `epoch`, from 0, is the first incomplete epoch.
struct ResumePoint {
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  bool of_this_run = true;  // false: the checkpoint belongs to another run
};

/// Truncates the files of a run folder at that point, so that the resumed run can append: later
/// rows of CSV files, lines of metrics.jsonl and checkpoints, and a truncated last line, move to
/// superseded/N/, N from 1. Files that every start rewrites (config.yaml, config.resolved.yaml,
/// manifest.json, result.json) are copied there. Returns the folder, or nullopt if nothing was
/// moved. A kill at any moment loses no row, and restore_superseded() can undo everything until
/// commit_superseded(). Throws Error(resource).
std::optional<fs::path> supersede_history(const fs::path& run_dir, const ResumePoint& point);

/// Returns data_fingerprints of manifest.json: split -> hex digest; "split" is the digest of how
/// dataset.split divides the data. Empty if there are none.
std::map<std::string, std::string> recorded_fingerprints(const fs::path& run_dir);
/// Returns the fingerprints of the data that a checkpoint was trained on, from its own manifest.
std::map<std::string, std::string> recorded_fingerprints(const checkpoint::Manifest& manifest);

/// Throws Error(checkpoint) that names each split whose data has changed.
void expect_same_data(const std::map<std::string, std::string>& before,
                      const std::map<std::string, std::string>& now);

/// Makes supersede_history() final after the run has resumed.
void commit_superseded(const fs::path& run_dir);

/// Undoes supersede_history() if the run has not resumed (no commit_superseded(), no newer
/// checkpoint): restores checkpoints and files, and points `last` to the newest checkpoint. Returns
/// whether there was anything to restore. Can be repeated after a kill. Throws Error(resource).
bool restore_superseded(const fs::path& run_dir);

}  // namespace trainctl::study
