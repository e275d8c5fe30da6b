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

/// Before the name of a damaged checkpoint that was moved aside.
inline constexpr std::string_view kAsidePrefix = "corrupt-";

/// What lies in a folder; nothing where it is not there. Throws Error(resource).
std::vector<std::string> names_in(const fs::path& folder);

/// A folder, and no link to one. Throws Error(resource) where that cannot be told.
bool is_folder(const fs::path& path);

/// It has a manifest. Where that cannot be told it has: such a folder is never removed as
/// unfinished.
bool is_committed(const fs::path& checkpoint);

/// Why a checkpoint could not be removed; nothing where it is gone. Its manifest goes first: a
/// removal that is cut short leaves an unfinished folder and no damaged checkpoint.
std::optional<std::string> remove_folder(const fs::path& checkpoint);

/// Renames it to "corrupt-<name>[-n]", and says where it went. Throws Error(resource).
fs::path move_aside(const fs::path& checkpoint);

/// The same, told. One that cannot be moved, as in an archive's folder, is told where it is.
void move_and_tell(const fs::path& checkpoint, const std::string& why,
                   const std::function<void(const fs::path& moved, const std::string& why)>& told);

/// The file of a checkpoint's folder that makes it one.
inline constexpr const char* kManifestName = "manifest";

/// When a checkpoint was made, as its folder is named. The order is that of age: step, then epoch.
struct Moment {
  std::int64_t global_step = 0;
  std::int64_t epoch = 0;  // complete ones: the index, from 0, of the epoch that comes next
  bool mid_epoch = false;  // batches of that epoch are trained on

  /// The epoch, from 1, that the last step belongs to; 0 before the first one.
  [[nodiscard]] std::int64_t epoch_number() const { return mid_epoch ? epoch + 1 : epoch; }

  bool operator==(const Moment& other) const { return (*this <=> other) == 0; }
  std::strong_ordering operator<=>(const Moment& other) const {
    return std::pair(global_step, epoch) <=> std::pair(other.global_step, other.epoch);
  }
};

/// "epoch=0003-step=000938" at the end of epoch 3, "epoch=0004-mid-step=001200" in the middle of
/// epoch 4.
std::string folder_name(const Moment& moment);
/// Nothing for a name that folder_name() does not give.
std::optional<Moment> parse_folder_name(std::string_view name);

/// "rank_0.part".
std::string part_name(int rank);

}  // namespace trainctl::checkpoint
