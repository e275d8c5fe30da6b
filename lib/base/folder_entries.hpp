#pragma once

#include <filesystem>
#include <system_error>

namespace trainctl {

/// Calls `take` with the path of each entry of a folder, up to a failure: a folder of /proc or /sys
/// may vanish while it is read. A range-based loop over a directory_iterator would throw.
template <class Take>
void for_each_entry(const std::filesystem::path& folder, const Take& take) {
  std::error_code failure;
  std::filesystem::directory_iterator entry(folder, failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure))
    take(entry->path());
}

}  // namespace trainctl
