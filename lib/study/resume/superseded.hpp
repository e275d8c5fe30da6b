#pragma once

#include "base/files.hpp"
#include "checkpoint/names.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::study {

/// What a start puts aside of the starts before it: superseded/N/ of the run folder, N the first
/// number that is free, made once something moves there. Until keep_aside() it can all come back.
class Aside {
 public:
  /// `from`: the checkpoint of this folder with which the run goes on; nothing: none of those that
  /// lie there.
  Aside(fs::path run_dir, std::optional<checkpoint::Moment> from);

  fs::path folder();
  [[nodiscard]] const std::optional<fs::path>& made() const { return made_; }

  /// Gives a file of the run folder other content. Its modification time stays, and tells when the
  /// run last wrote the file. Throws Error(resource).
  void rewrite(const fs::path& file, std::string_view text);
  /// Every checkpoint that is newer than `from`, by step, then epoch. Throws Error(resource).
  void move_checkpoints();

 private:
  [[nodiscard]] std::vector<std::string> later_checkpoints() const;

  fs::path run_dir_;
  std::optional<checkpoint::Moment> from_;
  std::optional<fs::path> made_;
};

/// The run has gone on: what was put aside stays there.
void keep_aside(const fs::path& run_dir);

/// The run has not gone on, as far as keep_aside() and newer checkpoints tell: checkpoints and
/// files are again what they were, and `last` leads to the newest. Says whether there was anything
/// to take back. Killed at any moment it can be called again. Throws Error(resource).
bool take_back(const fs::path& run_dir);

}  // namespace trainctl::study
