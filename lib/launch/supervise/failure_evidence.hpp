#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "events/records.hpp"

#include <cstdint>
#include <optional>
#include <string>

// The evidence about a failed rank, in addition to its exit status.

namespace trainctl::launch {

/// Returns FOLDER/rank_N.error.json.
fs::path error_path(const fs::path& log_folder, int rank);
/// Writes the error of a worker to error_path(), in case the event pipe is closed. Throws
/// Error(resource).
void write_error_file(const fs::path& log_folder, int rank, const Error& error);
/// Reads the error file; empty if it is missing or invalid.
std::optional<events::Failed> read_error_file(const fs::path& log_folder, int rank);
void remove_error_file(const fs::path& log_folder, int rank);

fs::path log_path(const fs::path& log_folder, int rank);
/// Returns the last lines of a log in printable form; empty if there is no log.
std::string log_tail(const fs::path& log);

/// Returns the number of processes that the kernel has killed because of memory (oom_kill), in our
/// control group or else on the machine; empty if not known. `root` is "/" outside tests.
std::optional<std::uint64_t> oom_kills(const fs::path& root = "/");

/// Decides whether ranks that ended by SIGKILL were killed because of memory: each increment of the
/// kernel's counter explains one.
class OomKillTracker {
 public:
  explicit OomKillTracker(fs::path root = "/");

  /// Returns the explanation that follows "it was killed by SIGKILL" for a rank with this peak
  /// memory use, in bytes.
  std::string explain_kill(double peak_bytes);

 private:
  fs::path root_;
  std::optional<std::uint64_t> explained_;
};

}  // namespace trainctl::launch
