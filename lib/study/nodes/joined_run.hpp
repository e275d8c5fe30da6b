#pragma once

#include "base/clock.hpp"
#include "study/run/run.hpp"

#include <functional>
#include <string>

namespace trainctl::study {

/// How a run ended, as a node that is not its head was told.
struct JoinedOutcome {
  int exit_code = 0;
  std::string verdict;
  std::string message;
  fs::path folder;  // the head's; empty: the run had not begun
};

/// Told what the node does, a line each.
using SayLine = std::function<void(const std::string& line)>;

/// Takes part in the run of another supervisor, by request.nodes: starts its ranks in the head's
/// run folder, attempt after attempt, until the head says that the run is over; the exit code is
/// that of the run. There is no lock and no result.json of its own. 7 where the head is lost, 130
/// or 143 where a signal came before the run had begun. Throws Error(config) where the head refuses
/// the node, naming the first value in which the configs differ, Error(resource) where the head's
/// folder is not seen here, and what the join throws.
JoinedOutcome join_run(const RunRequest& request, const SayLine& say, const Clock& clock);

}  // namespace trainctl::study
