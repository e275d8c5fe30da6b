#pragma once

#include "launch/supervise/supervisor.hpp"

#include <optional>
#include <vector>

// Pure: how ranks ended -> how the job ended.

namespace trainctl::launch {

/// A rank's own report of why it ends, or ours where it broke the rules.
struct Report {
  int kind = 1;
  std::string message;
};

/// All that decides about one rank.
struct RankEnd {
  int rank = 0;
  std::string host = {};  // empty: that of the job
  pid_t pid = 0;
  int seen_in_round = 0;  // of the watch loop, when the failure was first seen
  std::optional<int>
      signal;  // how the process ended; neither: it was left behind, the kernel did not let it end
  std::optional<int> exit_code;
  bool dumped_core = false;
  bool finished = false;      // it said Finished
  bool told_to_stop = false;  // SIGTERM was sent before it ended
  bool killed_by_us = false;  // SIGKILL was sent before it ended
  bool node_lost = false;     // nobody can tell how it ended: its supervisor is gone
  bool started = true;        // false: its node has not come so far
  std::optional<Report> report;
  std::string memory_hint;  // for a SIGKILL that nobody claims: " (perhaps ...)"
  std::int64_t step = 0;
  std::string phase;
  std::string collective;  // the last it was in; empty: none
};

/// Exit codes by which a worker says that it ended on a stop signal: 75 (after a checkpoint), 130
/// (SIGINT), 143 (no checkpoint could be saved).
bool is_stop_code(int code);

/// SIGINT or SIGTERM where the rank ended because it was asked to stop: by such an exit code, or
/// killed by a stop signal for which it had no handler yet. Nothing: otherwise.
std::optional<int> stop_signal_of(const RankEnd& end);
/// It ended so, and nothing can have been saved: by 143, or killed by the signal.
bool left_unsaved(const RankEnd& end);
/// All it tells is that it lost another rank, which is for that one to explain; a lost node is an
/// explanation.
bool lost_peer(const RankEnd& end);

/// Whether this rank's end is a failure and not the consequence of our own signals.
bool is_failure(const RankEnd& end);

struct JobEnd {
  std::vector<RankEnd> ranks;
  std::optional<int>
      stop_signal;  // that the supervisor got, or that a worker told of by its exit code
  std::string host;
};

/// Exit code, verdict, first cause and consequences. Log tails are left empty. After a stop signal:
/// 130 for SIGINT, else 75 where the ranks say that a checkpoint was saved and none says otherwise,
/// else 143.
Outcome judge(const JobEnd& job);

}  // namespace trainctl::launch
