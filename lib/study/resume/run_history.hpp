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

/// Truncates the files of a run folder at that point, so that the resumed run can append: later
/// rows of CSV files, lines of metrics.jsonl and checkpoints, and a truncated last line, move to
/// superseded/N/, N from 1. Files that every start rewrites (config.yaml, config.resolved.yaml,
/// manifest.json, result.json) are copied there. Returns the folder, or nullopt if nothing was
/// moved. A kill at any moment loses no row, and take_back() can undo everything until
/// keep_aside(). Throws Error(resource).
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

/// Undoes put_aside() if the run has not resumed (no keep_aside(), no newer checkpoint): restores
/// checkpoints and files, and points `last` to the newest checkpoint. Returns whether there was
/// anything to restore. Can be repeated after a kill. Throws Error(resource).
bool take_back(const fs::path& run_dir);

}  // namespace trainctl::study
