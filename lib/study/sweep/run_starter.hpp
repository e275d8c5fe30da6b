#pragma once

#include "launch/process/signals.hpp"
#include "study/sweep/jobs.hpp"
#include "study/sweep/planned_sweep.hpp"
#include "study/sweep/sweep.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::study {

/// Whose runs are started, and where they leave what they write.
struct SweepPlace {
  const PlannedSweep& sweep;
  const Invocation& invocation;
  std::filesystem::path folder;
};

/// Starts `trainctl run`, with its share of the machine.
class RunStarter {
 public:
  RunStarter(const SweepPlace& place, int jobs, const launch::SignalGuard& guard);

  std::unique_ptr<JobProcess> start(const SweepJob& job);
  /// What a run had is free for the next.
  void release(std::int64_t number);

 private:
  RunStarter(const SweepPlace& place, int jobs, const launch::SignalGuard& guard,
             const std::vector<std::string>& gpus);

  [[nodiscard]] std::vector<std::string> command(const SweepJob& job) const;
  [[nodiscard]] std::filesystem::path config_of(const std::string& hash) const;
  [[nodiscard]] const PlannedRun& run_of(const SweepJob& job) const;
  [[nodiscard]] int gpus_of(const SweepJob& job) const;

  SweepPlace place_;
  int jobs_;
  const launch::SignalGuard& guard_;
  int gpus_;
  Slots slots_;
  std::map<std::int64_t, Share> shares_;
};

}  // namespace trainctl::study
