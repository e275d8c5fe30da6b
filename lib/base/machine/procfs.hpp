#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace trainctl {

/// Calls `take` with the path of each entry of a folder up to the first error. A range-based loop
/// over a directory_iterator would throw if a folder of /proc disappears while it is read.
template <class Take>
void for_each_entry(const std::filesystem::path& folder, const Take& take) {
  std::error_code failure;
  std::filesystem::directory_iterator entry(folder, failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure))
    take(entry->path());
}

/// Returns the first line of a file; empty if the file cannot be read.
std::string first_line_of(const std::filesystem::path& file);

/// The fields of /proc/PID/stat that are used here; see proc(5).
struct ProcessStat {
  std::string name;  // at most 15 arbitrary characters
  char state = 0;    // 'R', 'S', 'D', 'T' (stopped), 'Z' (zombie), ...
  pid_t parent = 0;
  double cpu_s = 0;               // user and kernel mode
  std::uint64_t start_ticks = 0;  // from boot to the start of the process
  std::uint64_t rss_bytes = 0;

  /// Returns the seconds since the process started.
  [[nodiscard]] double age_s() const;
};

/// Reads the file `stat` in "/proc/PID" or "/proc/PID/task/TID". Empty if the process has ended.
std::optional<ProcessStat> read_process_stat(const std::filesystem::path& folder);
std::optional<ProcessStat> read_process_stat(pid_t pid);

}  // namespace trainctl
