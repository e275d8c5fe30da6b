#pragma once

#include "base/files.hpp"
#include "study/folder_lock.hpp"

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
  std::vector<fs::path> skipped = {};     // newer runs without a checkpoint, see resumed_folder()
};

struct RunFolder {
  fs::path path;
  FolderLock lock;
};

/// Makes the run's folder, empty and ours: runs/<name>/<local_stamp()>/, and points
/// runs/<name>/latest at it. Throws Error(resource) where the root cannot be written or another run
/// is using a fixed folder, Error(config) where that is not empty and not to be resumed.
RunFolder make_run_folder(const FolderRequest& request);

/// The newest folder that make_run_folder() made for the request: the one that `latest` leads to,
/// else the last by time. Nothing where there is none.
std::optional<fs::path> newest_folder(const FolderRequest& request);

/// The experiment's name as a single folder name: letters, digits, '.', '-', '_'.
std::string folder_name(const std::string& name);

}  // namespace trainctl::study
