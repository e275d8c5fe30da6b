#pragma once

#include "base/clock.hpp"
#include "study/run/run.hpp"

#include <string>

namespace trainctl::study {

/// The end of a run, as node 0 reported it to another node.
struct JoinedOutcome {
  int exit_code = 0;
  std::string verdict;
  std::string message;
  fs::path folder;  // node 0's run folder; empty: the run had not started
};

/// Takes part in the run of node 0, by request.nodes: starts this node's ranks in node 0's run
/// folder, attempt after attempt, until node 0 reports the end of the run; the exit code is that of
/// the run. This node has no lock and no result.json. Returns exit code 7 if the connection to node
/// 0 is lost, 130 or 143 if a signal came before the run started. Throws Error(config) when node 0
/// rejects the node, naming the first value in which the configs differ, Error(resource) when node
/// 0's folder is not visible here, and what the join throws.
JoinedOutcome join_run(const RunRequest& request, const PrintLine& print, const Clock& clock);

}  // namespace trainctl::study
