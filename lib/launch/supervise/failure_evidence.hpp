#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "events/records.hpp"

#include <cstdint>
#include <optional>
#include <string>

// What is known about a rank that failed, beside its exit status.

namespace trainctl::launch {

/// logs/rank_N.error.json.
fs::path error_path(const fs::path& log_folder, int rank);
/// Writes logs/rank_N.error.json: the worker's last word, for when the event pipe is gone. Throws
/// Error(resource).
void write_error_file(const fs::path& log_folder, int rank, const Error& error);
/// Reads it back; nothing where there is none or it makes no sense.
std::optional<events::Failed> read_error_file(const fs::path& log_folder, int rank);
/// Removes the one of an earlier run in the same folder.
void remove_error_file(const fs::path& log_folder, int rank);

fs::path log_path(const fs::path& log_folder, int rank);
/// The last lines of a log, safe to print; empty where there is none.
std::string log_tail(const fs::path& log);

/// Processes that the kernel has killed for memory, in our control group or else on the machine;
/// nothing where it does not tell. `root` stands for "/" in tests.
std::optional<std::uint64_t> memory_kills(const fs::path& root = "/");

/// Tells whether ranks that were killed by SIGKILL were killed for memory: each rise of the counter
/// explains one.
class MemoryWatch {
 public:
  explicit MemoryWatch(fs::path root = "/");

  /// What is said behind "it was killed by SIGKILL" of a rank that had so many bytes at most.
  std::string explain_kill(double peak_bytes);

 private:
  fs::path root_;
  std::optional<std::uint64_t> explained_;
};

}  // namespace trainctl::launch
