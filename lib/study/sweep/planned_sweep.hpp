#pragma once

#include "base/json.hpp"
#include "config/diagnostics.hpp"
#include "study/run/run.hpp"
#include "study/sweep/sweep.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainctl::study {

/// The options of `trainctl sweep`, except the experiment, whose overrides also contain the varied
/// keys.
struct SweepOptions {
  std::string list;  // a YAML file of runs
  std::int64_t samples = 0;
  std::int64_t lhs = 0;
  std::uint64_t sample_seed = 0;
  std::string seeds;  // empty: the experiment's seed
  bool asha = false;
  int eta = 3;
  std::int64_t min_epochs = 1;
  std::string monitor;           // empty: the experiment's monitor
  std::string mode;              // min, max; empty: by the monitor
  std::string against = "best";  // the row that all others are compared with: best, first
  std::string out;               // empty: runs/sweep/NAME/TIME
  bool resume = false;
  bool retry_failed = false;
  int jobs = 1;
  int retries = 1;
  bool fail_fast = false;
};

/// All runs of a sweep after they were loaded and checked.
struct PlannedSweep {
  std::string name;                // the experiment's
  std::string kind;                // grid, list, random, lhs
  std::vector<std::string> fixed;  // overrides of all runs
  Json definition;
  std::vector<PlannedRun> runs;
  std::map<std::string, int> devices;  // trainer.devices by config hash; 0: on the CPU, -1: auto
  std::map<std::string, std::string> configs;  // the resolved experiment by config hash, as YAML
  std::size_t repeated = 0;                    // settings that resolve to an earlier one
  Ranking ranking;
  std::vector<std::int64_t> rungs;
};

/// Loads and checks all runs. Throws Error(config) or Error(data) that names every problem of every
/// combination once. Warnings go into `diagnostics`.
PlannedSweep plan_sweep(const SweepOptions& options, const Invocation& invocation,
                        config::Diagnostics& diagnostics);

}  // namespace trainctl::study
