#pragma once

#include "base/json.hpp"
#include "config/diagnostics.hpp"
#include "report/search/sweep.hpp"
#include "spec/load.hpp"
#include "study/bench/trials.hpp"
#include "study/run/run.hpp"
#include "study/sweep/sweep.hpp"
#include "study/sweep/sweep_space.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The values that identify a sweep.

namespace trainctl::study {

/// Returns a hash of the resolved experiment, including defaults, without its seed: runs that
/// differ only in the seed have the same hash.
std::string config_hash(const spec::Loaded& loaded);

/// Returns path -> value of the resolved experiment without the varied keys, everything below them,
/// and the seed.
Json fixed_values(const spec::Loaded& loaded, const std::vector<std::string>& varied);

/// Returns the key of a command-line override without its signs (+, ++, ~).
std::string bare_key(const std::string& key);

/// Returns the differences by path: "samples: 10 -> 20; base.optimizer.lr: 0.1 -> 0.2 and 3 more".
/// Empty if there are none.
std::string definition_difference(const Json& before, const Json& now);

/// The options of `trainctl sweep`, except the experiment, whose overrides also contain the varied
/// keys.
struct SweepOptions {
  std::string list;  // a YAML file of runs
  std::int64_t samples = 0;
  std::int64_t lhs = 0;
  std::uint64_t sample_seed = 0;
  std::string seeds;  // empty: the experiment's seed
  int folds = 0;      // of a cross-validation; 0: none
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
