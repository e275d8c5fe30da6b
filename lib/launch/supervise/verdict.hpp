#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "events/records.hpp"
#include "launch/supervise/supervisor.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Pure functions that derive how the job ended from how the ranks ended.

// The evidence about a failed rank, in addition to its exit status.

namespace trainctl::launch {

/// The reason of a rank's end: the rank's own report, or ours if it broke a rule.
struct FailureReport {
  int kind = 1;
  std::string message;
};

/// All facts about the end of one rank.
struct RankEnd {
  int rank = 0;
  std::string host = {};  // empty: host of the job
  pid_t pid = 0;
  int seen_in_round = 0;  // iteration of the supervisor's loop in which the failure was first seen
  std::optional<int>
      signal;  // how the process ended; without signal and exit code it could not be killed
  std::optional<int> exit_code;
  bool dumped_core = false;
  bool finished = false;      // it has reported Finished
  bool sigterm_sent = false;  // SIGTERM was sent before it ended
  bool sigkill_sent = false;  // SIGKILL was sent before it ended
  bool node_lost = false;     // unknown end, since its supervisor is gone
  bool started = true;        // false: its node has not joined
  std::optional<FailureReport> report;
  std::string memory_hint;  // for a SIGKILL of unknown origin: " (possibly ...)"
  std::int64_t step = 0;
  std::string phase;
  std::string collective;  // the last one entered; empty: none
};

/// Returns whether an exit code means that the worker ended because of a stop signal: 75 (after a
/// checkpoint), 130 (SIGINT), 143 (no checkpoint could be saved).
bool is_stop_code(int code);

/// Returns SIGINT or SIGTERM if the rank ended because of a stop signal: with such an exit code, or
/// killed by a stop signal for which it had no handler. Empty otherwise.
std::optional<int> stop_signal_of(const RankEnd& end);
/// Returns whether the rank stopped without saving: with 143, or killed by the signal.
bool stopped_without_checkpoint(const RankEnd& end);
/// Returns whether the rank only reports that it lost another rank, which has the actual cause. A
/// lost node is a cause.
bool lost_peer(const RankEnd& end);

/// Returns whether the end of the rank is a failure and not a consequence of our signals.
bool is_failure(const RankEnd& end);

/// How all ranks of a job ended.
struct JobEnd {
  std::vector<RankEnd> ranks;
  std::optional<int>
      stop_signal;  // received by the supervisor, or reported by a worker's exit code
  std::string host;
};

/// Returns exit code, verdict, first cause and consequences, with empty log tails. After a stop
/// signal the exit code is 130 for SIGINT, else 75 if ranks report that a checkpoint was saved and
/// no rank contradicts, else 143.
Outcome derive_outcome(const JobEnd& job);

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
