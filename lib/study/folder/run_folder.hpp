#pragma once

#include "base/files.hpp"
#include "study/folder/folder_lock.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// go_on: what lies in the fixed folder is a run that is resumed.
enum class IfUsed { refuse, go_on };

struct FolderRequest {
  std::string name;                       // the experiment's name
  fs::path root = "runs";                 // --out
  std::optional<fs::path> fixed;          // --run-dir: this folder, not a fresh one
  IfLocked if_locked = IfLocked::refuse;  // the fixed one
  IfUsed if_used = IfUsed::refuse;        // the fixed one
  std::vector<fs::path> skipped = {};     // newer runs that cannot be resumed, see resumed_folder()
  std::string skipped_why = {};           // "without a checkpoint", see lacking()
};

struct RunFolder {
  fs::path path;
  FolderLock lock;
};

/// Makes the run's folder, empty and ours: runs/<name>/<utc_stamp()>/, and points
/// runs/<name>/latest at it. The path has no links: `latest` may lead to another run while this one
/// is trained. Throws Error(resource) where the root cannot be written or another run
/// is using a fixed folder, Error(config) where that is not empty and not to be resumed.
RunFolder make_run_folder(const FolderRequest& request);

/// Returns the folders in `parent` (runs or sweeps of one name), newest first: the one that
/// `latest` leads to, then by the time in their names. Links are left out. Empty if there are none.
std::vector<fs::path> newest_first(const fs::path& parent);

/// Returns the newest folder that make_run_folder() made for the request, if there is one.
std::optional<fs::path> newest_folder(const FolderRequest& request);

/// Returns the absolute path without links, "..", and a "/" at the end, also of a folder that does
/// not exist yet.
fs::path real_folder(const fs::path& folder);

/// The experiment's name as a single folder name: letters, digits, '.', '-', '_'.
std::string folder_name(const std::string& name);

}  // namespace trainctl::study
