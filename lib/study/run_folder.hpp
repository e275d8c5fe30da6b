#pragma once

#include "base/files.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace trainctl::study {

struct FolderRequest {
  std::string name;               // the experiment's name
  fs::path root = "runs";         // --out
  std::optional<fs::path> fixed;  // --run-dir: this folder, not a fresh one
};

/// While it lives the folder is one run's alone: a file `.lock` in it says whose.
class FolderLock {
 public:
  /// Throws Error(resource) naming the holder where another run has it.
  explicit FolderLock(const fs::path& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept : path_(std::exchange(other.path_, fs::path())) {}
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  fs::path path_;  // empty: moved from
};

struct RunFolder {
  fs::path path;
  FolderLock lock;
};

/// Makes the run's folder, empty and ours: runs/<name>/<yyyymmdd-hhmmss>-<4 hex>/, and points
/// runs/<name>/latest at it. Throws Error(resource) where the root cannot be written or another run
/// is using a fixed folder, Error(config) where that is not empty.
RunFolder make_run_folder(const FolderRequest& request);

/// The experiment's name as a single folder name: letters, digits, '.', '-', '_'.
std::string folder_name(const std::string& name);

}  // namespace trainctl::study
