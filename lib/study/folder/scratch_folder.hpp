#pragma once

#include "base/files.hpp"

namespace trainctl::study {

/// A folder of its own for a task whose files nobody has asked for. Gone with this object, unless
/// it was kept for somebody to look into.
class ScratchFolder {
 public:
  /// Made in `parent`; those there whose run was killed, as their stale `.lock` tells, are removed.
  /// Throws Error(resource) where it cannot be written.
  explicit ScratchFolder(const fs::path& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  bool kept_ = false;
};

/// Where a scratch folder may lie that nothing is to stay near. Throws Error(resource) where TMPDIR
/// names no folder.
fs::path temporary_folder();

}  // namespace trainctl::study
