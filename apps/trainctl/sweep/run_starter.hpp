#pragma once

#include "launch/process/signals.hpp"
#include "study/sweep/jobs.hpp"
#include "study/sweep/sweep.hpp"
#include "sweep/plan.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::app {

/// Starts `trainctl run`, with its share of the machine.
class RunStarter {
 public:
  RunStarter(const SweepFlags& flags, const PlannedSweep& sweep,
             const std::filesystem::path& folder, const launch::SignalGuard& guard);

  std::unique_ptr<study::JobProcess> start(const study::SweepJob& job);
  /// What a run had is free for the next.
  void release(std::int64_t number);

 private:
  RunStarter(const SweepFlags& flags, const PlannedSweep& sweep,
             const std::filesystem::path& folder, const launch::SignalGuard& guard,
             const std::vector<std::string>& gpus);

  [[nodiscard]] std::vector<std::string> command(const study::SweepJob& job) const;
  [[nodiscard]] std::filesystem::path config_of(const std::string& hash) const;
  [[nodiscard]] const study::PlannedRun& run_of(const study::SweepJob& job) const;
  [[nodiscard]] int gpus_of(const study::SweepJob& job) const;

  const SweepFlags& flags_;
  const PlannedSweep& sweep_;
  std::filesystem::path folder_;
  const launch::SignalGuard& guard_;
  int gpus_;
  study::Slots slots_;
  std::map<std::int64_t, study::Share> shares_;
};

}  // namespace trainctl::app
