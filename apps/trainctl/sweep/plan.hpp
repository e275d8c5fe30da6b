#pragma once

#include "base/json.hpp"
#include "cli/context.hpp"
#include "cli/experiment.hpp"
#include "report/search/sweep.hpp"
#include "study/sweep/sweep.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainctl::app {

/// What `trainctl sweep` was asked for.
struct SweepFlags {
  ConfigArguments config;  // its overrides are also the keys that vary
  std::string list;        // a YAML file of runs
  std::int64_t samples = 0;
  std::int64_t lhs = 0;
  std::uint64_t sample_seed = 0;
  std::string seeds;  // empty: the experiment's own
  bool asha = false;
  int eta = 3;
  std::int64_t min_epochs = 1;
  std::string monitor;  // empty: the experiment's
  std::string mode;     // min, max; empty: by the monitor
  std::string against = "best";
  std::string out;  // empty: runs/sweep/NAME/TIME
  bool resume = false;
  bool retry_failed = false;
  int jobs = 1;
  int retries = 1;
  bool fail_fast = false;
  bool keep_going = false;
  std::string csv;
};

/// Every run of a sweep, read and checked.
struct PlannedSweep {
  std::string name;                // the experiment's
  std::string kind;                // grid, list, random, lhs
  std::vector<std::string> fixed;  // overrides of all runs
  Json definition;
  std::vector<study::PlannedRun> runs;
  std::map<std::string, int> devices;  // trainer.devices by config hash; 0: on the CPU, -1: auto
  std::map<std::string, std::string> configs;  // the resolved experiment by config hash, as YAML
  std::size_t repeated = 0;                    // settings that resolve to one that came before
  study::Ranking ranking;
  std::vector<std::int64_t> rungs;
};

/// Throws Error(config), or Error(data), that names every problem of every combination once.
PlannedSweep plan_sweep(const SweepFlags& flags, Context& context);

}  // namespace trainctl::app
