#pragma once

#include "base/files.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
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

}  // namespace trainctl::checkpoint
