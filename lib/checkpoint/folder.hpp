#pragma once

#include "base/files.hpp"

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::checkpoint {

/// Name prefix of a damaged checkpoint that was renamed.
inline constexpr std::string_view kQuarantinePrefix = "corrupt-";

/// Returns the entries of a folder; empty if the folder does not exist. Throws Error(resource).
std::vector<std::string> file_names(const fs::path& folder);

/// Returns whether `path` is a folder and not a symbolic link. Throws Error(resource) when that
/// cannot be determined.
bool is_folder(const fs::path& path);

/// Returns whether the checkpoint has a manifest. Returns true when that cannot be determined, so
/// that such a folder is never removed as unfinished.
bool is_committed(const fs::path& checkpoint);

/// Removes a checkpoint; returns the error, or nothing on success. Removes the manifest first, so
/// that an interrupted removal leaves an unfinished folder instead of a damaged checkpoint.
std::optional<std::string> remove_folder(const fs::path& checkpoint);

/// Renames the checkpoint to "corrupt-<name>[-n]" and returns the new path. Throws Error(resource).
fs::path quarantine(const fs::path& checkpoint);

/// Like quarantine(), and reports the result. If the checkpoint cannot be renamed, as in a
/// read-only archive, reports it with its old path.
void quarantine_and_report(
    const fs::path& checkpoint, const std::string& why,
    const std::function<void(const fs::path& moved, const std::string& why)>& on_quarantine);

/// The file that marks a folder as a committed checkpoint.
inline constexpr const char* kManifestName = "manifest";

/// The training progress in the name of a checkpoint's folder. Checkpoints are ordered by step,
/// then epoch.
struct Moment {
  std::int64_t global_step = 0;
  std::int64_t epoch = 0;  // number of complete epochs, which is the index of the next epoch
  bool mid_epoch = false;  // some batches of that epoch are trained

  /// Returns the epoch, counted from 1, of the last step; 0 before the first step.
  [[nodiscard]] std::int64_t epoch_number() const { return mid_epoch ? epoch + 1 : epoch; }

  bool operator==(const Moment& other) const { return (*this <=> other) == 0; }
  std::strong_ordering operator<=>(const Moment& other) const {
    return std::pair(global_step, epoch) <=> std::pair(other.global_step, other.epoch);
  }
};

/// Returns "epoch=0003-step=000938" at the end of epoch 3, or "epoch=0004-mid-step=001200" in the
/// middle of epoch 4.
std::string folder_name(const Moment& moment);
/// Returns nothing for a name that folder_name() cannot return.
std::optional<Moment> parse_folder_name(std::string_view name);

/// Returns the file name of a rank's part, such as "rank_0.part".
std::string part_name(int rank);

}  // namespace trainctl::checkpoint
