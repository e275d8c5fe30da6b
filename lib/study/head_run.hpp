#pragma once

#include "launch/head.hpp"
#include "launch/signals.hpp"
#include "report/ending.hpp"
#include "study/run.hpp"

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
  /// Tells all nodes how the run has ended. Once.
  void end(const report::Ending& ending);

 private:
  NodePlan plan_;
  std::optional<launch::Head> head_;
  bool has_ended_ = false;
};

}  // namespace trainctl::study
