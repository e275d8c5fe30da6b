#pragma once

#include "base/json.hpp"
#include "config/diagnostics.hpp"
#include "report/search/sweep.hpp"
#include "spec/load.hpp"
#include "study/bench/trials.hpp"
#include "study/run/run.hpp"
#include "study/sweep/sweep.hpp"

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

// The settings of a sweep: listed, combined or drawn. These are pure functions.

/// The largest number of runs in a sweep.
inline constexpr std::size_t kMostSweepRuns = 10'000;

enum class Spread { listed, uniform, logarithmic };

/// One key, and how its values are chosen.
struct Dimension {
  Axis axis;  // the listed values, if any
  Spread spread = Spread::listed;
  double low = 0;  // otherwise drawn between low and high
  double high = 0;
};

/// Returns whether an override varies its key: "k=a,b", "k=range(1,9)", "k=choice(a,b)",
/// "k=uniform(0,1)", "k=log(1e-4,0.1)".
bool is_dimension(std::string_view word);
/// Parses such an override. Signs before the key stay: "+k=1,2". Throws Error(config).
Dimension parse_dimension(std::string_view word);

/// Returns the value of the dimension for `unit` in [0, 1): listed values have equal shares; drawn
/// values have six digits.
std::string value_at(const Dimension& dimension, double unit);

using Settings = std::vector<report::Overrides>;

/// Returns every combination; the last key varies fastest. Throws Error(config) when a value is to
/// be drawn, a key is given twice, or there are more than 1,000 combinations.
Settings grid_settings(std::span<const Dimension> dimensions);
/// Draws `count` settings. Each value depends only on (seed, key, index), so a larger count keeps
/// the first settings.
Settings random_settings(std::span<const Dimension> dimensions, std::size_t count,
                         std::uint64_t seed);
/// Draws a Latin hypercube (McKay et al. 1979): each key's range has `count` equal parts, and every
/// part is used once. A different count gives a different hypercube.
Settings latin_hypercube(std::span<const Dimension> dimensions, std::size_t count,
                         std::uint64_t seed);
/// Reads a YAML list of maps, one per run: [{optimizer.lr: 0.1, model.hidden: [32]}, ...]. Throws
/// Error(config) that names every problem.
Settings listed_settings(const std::filesystem::path& file);

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
