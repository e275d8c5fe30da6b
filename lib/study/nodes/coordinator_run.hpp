#pragma once

#include "base/error.hpp"
#include "launch/nodes/coordinator.hpp"
#include "launch/process/signals.hpp"
#include "report/record/run_result.hpp"
#include "study/run/run.hpp"

#include <optional>
#include <string>

namespace trainctl::study {

/// The head's part of a run on several nodes, from its first attempt to its end.
class HeadRun {
 public:
  /// Listens where the plan says, and tells the others where that is. `folder` is the run's,
  /// locked. Throws what Listener, announce() and the choice of devices throw.
  HeadRun(const RunRequest& request, const fs::path& folder, launch::SignalGuard& guard);
  /// Nodes that were not told of an end are told that there was none.
  ~HeadRun();
  HeadRun(const HeadRun&) = delete;
  HeadRun& operator=(const HeadRun&) = delete;

  [[nodiscard]] launch::Head& head() { return *head_; }
  /// By which other nodes reach this one.
  [[nodiscard]] const std::string& local_address() const { return head_->endpoint().host; }
  /// Tells all nodes how the run has ended; waits a few seconds for those that have never come, but
  /// not after a signal. Once.
  void end(const report::Ending& ending);
  [[nodiscard]] bool has_ended() const { return has_ended_; }

 private:
  NodePlan plan_;
  launch::SignalGuard& guard_;
  std::optional<launch::Head> head_;
  bool has_ended_ = false;
};

/// Of a head that failed before it listened: tells the nodes that come within a few seconds, which
/// would look for it in vain. Where that is not possible, they are left to that.
void tell_of_failure(const RunRequest& request, const Error& error, launch::SignalGuard& guard);

}  // namespace trainctl::study
