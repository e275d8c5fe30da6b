#pragma once

#include "events/records.hpp"
#include "launch/supervise/supervisor.hpp"

#include <filesystem>
#include <string>

namespace trainctl::study {

/// Tells what a run has chosen (launch, device, threads, data): on the console under -v, and in the
/// log of each rank.
class RunLog {
 public:
  /// `folder` has rank_N.log.
  explicit RunLog(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void starts(const launch::LaunchSpec& launch) const;
  /// Throws Error(resource) where the log cannot be written.
  void on_event(int rank, const events::Event& event) const;
  /// A line of the supervisor's own. Throws as on_event().
  void tell(int rank, const std::string& line) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace trainctl::study
