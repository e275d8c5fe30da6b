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

/// Where a run goes on: `epoch`, from 0, is the first that is not complete.
struct Point {
  std::int64_t epoch = 0;
  std::int64_t global_step = 0;
  bool of_this_run = true;  // a checkpoint of the folder; else none there is of this past
};

/// Makes the files of a run folder what they were at that point, so that what follows can be
/// appended: rows of CSV files from `epoch` on, lines of metrics.jsonl behind `global_step` or of
/// such an epoch, a last line that was cut off, and later checkpoints. They are not lost: they move
/// to superseded/N/, N from 1, and the files that every start writes anew (config.yaml,
/// config.resolved.yaml, manifest.json, result.json) are copied there. Logs stay as they are. Says
/// where it all is; nothing where there was nothing. Killed at any moment it loses no row; until
/// keep_aside() it can all be undone by take_back(). Throws Error(resource).
std::optional<fs::path> put_aside(const fs::path& run_dir, const Point& point);

/// data_fingerprints of manifest.json: split -> hex; "split" is how dataset.split divides the data.
/// Empty where there are none.
std::map<std::string, std::string> recorded_fingerprints(const fs::path& run_dir);
/// The same of the data that a checkpoint was trained on, as its own manifest records it.
std::map<std::string, std::string> recorded_fingerprints(const checkpoint::Manifest& manifest);

/// Throws Error(checkpoint) that names each split whose data is not what it was.
void expect_same_data(const std::map<std::string, std::string>& before,
                      const std::map<std::string, std::string>& now);

/// The run has gone on: what was put aside stays there.
void keep_aside(const fs::path& run_dir);

/// The run has not gone on, as far as keep_aside() and newer checkpoints tell: checkpoints and
/// files are again what they were, and `last` leads to the newest. Says whether there was anything
/// to take back. Killed at any moment it can be called again. Throws Error(resource).
bool take_back(const fs::path& run_dir);

}  // namespace trainctl::study
