#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "launch/nodes/coordinator.hpp"
#include "launch/process/signals.hpp"
#include "report/record/run_result.hpp"
#include "study/run/run.hpp"

#include <optional>
#include <string>

namespace trainctl::study {

/// Node 0's part of a run on several nodes, from its first attempt to its end.
class CoordinatorRun {
 public:
  /// Listens at the endpoint of the plan and announces it to the other nodes. `folder` is the
  /// locked run folder. Throws what Listener, announce() and the choice of devices throw.
  CoordinatorRun(const RunRequest& request, const fs::path& folder, launch::SignalGuard& guard);
  /// Reports to nodes that have not received an ending that the run ended without one.
  ~CoordinatorRun();
  CoordinatorRun(const CoordinatorRun&) = delete;
  CoordinatorRun& operator=(const CoordinatorRun&) = delete;

  [[nodiscard]] launch::Coordinator& coordinator() { return *coordinator_; }
  /// Returns the address at which other nodes reach this one.
  [[nodiscard]] const std::string& local_address() const { return coordinator_->endpoint().host; }
  /// Sends the ending of the run to all nodes. Waits a few seconds for nodes that have not
  /// connected yet, but not after a signal. Must be called once.
  void end(const report::RunResult& ending);
  [[nodiscard]] bool has_ended() const { return has_ended_; }

 private:
  NodePlan plan_;
  launch::SignalGuard& guard_;
  std::optional<launch::Coordinator> coordinator_;
  bool has_ended_ = false;
};

/// Called when node 0 fails before it listens: reports the failure to the nodes that connect within
/// a few seconds and would otherwise wait in vain. If it cannot listen, the other nodes run into
/// their timeout.
void report_failure(const RunRequest& request, const Error& error, launch::SignalGuard& guard);

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
