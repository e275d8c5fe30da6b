#pragma once

#include "base/files.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/manifest.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::study {

/// The position where a run resumes: `epoch`, from 0, is the first incomplete epoch.
struct Point {
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  bool of_this_run = true;  // false: the checkpoint belongs to another run
};

/// Truncates the files of a run folder to that point, so that the resumed run can append: rows of
/// CSV files from `epoch` on, lines of metrics.jsonl after `global_step` or of such an epoch, a
/// truncated last line, and later checkpoints. They move to superseded/N/, N from 1, and copies of
/// the files that every start rewrites (config.yaml, config.resolved.yaml, manifest.json,
/// result.json) go there. Logs are unchanged. Returns the folder, or nullopt if nothing was moved.
/// A kill at any moment loses no row; until keep_aside(), take_back() can undo everything. Throws
/// Error(resource).
std::optional<fs::path> put_aside(const fs::path& run_dir, const Point& point);

/// Returns data_fingerprints of manifest.json: split -> hex digest; "split" is the digest of how
/// dataset.split divides the data. Empty if there are none.
std::map<std::string, std::string> recorded_fingerprints(const fs::path& run_dir);
/// Returns the fingerprints of the data that a checkpoint was trained on, from its own manifest.
std::map<std::string, std::string> recorded_fingerprints(const checkpoint::Manifest& manifest);

/// Throws Error(checkpoint) that names each split whose data has changed.
void expect_same_data(const std::map<std::string, std::string>& before,
                      const std::map<std::string, std::string>& now);

/// Makes put_aside() final after the run has resumed.
void keep_aside(const fs::path& run_dir);

/// Undoes put_aside() for a run that has not resumed, which is known from keep_aside() and newer
/// checkpoints: restores the checkpoints and files, and points `last` to the newest checkpoint.
/// Returns whether there was anything to restore. It can be called again after a kill at any
/// moment. Throws Error(resource).
bool take_back(const fs::path& run_dir);

}  // namespace trainctl::study
