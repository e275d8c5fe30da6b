#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace trainctl {

/// Calls `take` with the path of each entry of a folder, up to a failure: a folder of /proc may
/// vanish while it is read, where a range-based loop over a directory_iterator would throw.
template <class Take>
void for_each_entry(const std::filesystem::path& folder, const Take& take) {
  std::error_code failure;
  std::filesystem::directory_iterator entry(folder, failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure))
    take(entry->path());
}

/// Returns the first line of a file; empty where the file cannot be read.
std::string first_line_of(const std::filesystem::path& file);

/// The fields of /proc/PID/stat that are used here, see proc(5).
struct ProcessStat {
  std::string name;  // at most 15 characters of any kind
  char state = 0;    // 'R', 'S', 'D', 'T' (stopped), 'Z' (zombie), ...
  pid_t parent = 0;
  double cpu_s = 0;               // user and kernel mode
  std::uint64_t start_ticks = 0;  // from the start of the machine to that of the process
  std::uint64_t rss_bytes = 0;

  /// Returns the seconds since the process was started.
  [[nodiscard]] double age_s() const;
};

/// Reads the file `stat` in "/proc/PID" or "/proc/PID/task/TID". Empty where the process has ended.
std::optional<ProcessStat> read_process_stat(const std::filesystem::path& folder);
std::optional<ProcessStat> read_process_stat(pid_t pid);

}  // namespace trainctl
