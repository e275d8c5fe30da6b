#pragma once

#include "base/json.hpp"
#include "events/records.hpp"
#include "report/compare/statistics.hpp"
#include "report/text/table.hpp"

namespace trainctl::report {

/// pruned: it was good enough to begin, and not to go on; its checkpoint is there.
enum class SweepStatus { pending, running, ok, failed, pruned };
constexpr std::array<const char*, 5> enum_names(SweepStatus) {
  return {"pending", "running", "ok", "failed", "pruned"};
}
const char* name_of(SweepStatus status);

/// Key of the experiment file -> value as YAML.
using Overrides = std::vector<std::pair<std::string, std::string>>;

/// One run of a sweep: a setting with one seed.
struct SweepRun {
  std::string id;         // "0007"
  std::size_t group = 0;  // runs that differ by the seed alone share one
  std::uint64_t seed = 0;
  Overrides overrides;
  SweepStatus status = SweepStatus::pending;
  std::optional<int> exit_code;
  std::string message;                                  // of one that failed
  std::vector<std::pair<std::string, double>> metrics;  // "val/accuracy" of the last epoch
  std::optional<double> value;                          // of the monitor, in its best epoch
  std::string run_dir;
  std::int64_t epochs = 0;                // done
  double wall_s = 0;                      // of all its starts
  std::optional<std::int64_t> pruned_at;  // epoch
};

enum class Against { best, first };
constexpr std::array<const char*, 2> enum_names(Against) { return {"best", "first"}; }
enum class Better { lower, higher };

/// A sweep as far as it has come. The order of the runs is that of its definition.
struct Sweep {
  std::string config;  // path of the experiment file
  std::string folder;
  std::string kind;  // grid, list, random, lhs
  bool prunes = false;
  std::string monitor;
  Better better = Better::lower;
  Against against = Against::best;
  std::vector<SweepRun> runs;
};

/// One setting over its seeds.
struct SweepRow {
  std::size_t group = 0;
  Overrides overrides;
  SweepStatus status = SweepStatus::pending;  // failed where a run has, ok where all are
  std::size_t runs = 0;
  std::int64_t epochs = 0;  // fewest of its runs
  double wall_s = 0;        // mean of its runs
  MeanInterval value;       // of the monitor
  MeanInterval difference;  // to the row that all are compared with, seed by seed
  bool is_reference = false;
  std::optional<bool> tied;  // with it: the interval of the difference holds 0; needs two seeds
};

/// Keys that some run sets, in the order in which they come.
std::vector<std::string> sweep_keys(const Sweep& sweep);
/// The value of a key; empty where it is not set.
std::string override_of(const Overrides& overrides, const std::string& key);
std::size_t runs_with(const Sweep& sweep, SweepStatus status);

/// The best first: settings whose runs are all complete, then those that were cut short, the
/// longest first, then what has failed or not ended.
std::vector<SweepRow> sweep_rows(const Sweep& sweep);

/// Rank, a column for each key that was varied, the monitor with its interval, difference, epochs,
/// time, status.
Table sweep_table(const Sweep& sweep, const std::vector<SweepRow>& rows);
/// What the columns mean, how many settings are tied, which runs failed and why. Plain text.
std::string sweep_notes(const Sweep& sweep, const std::vector<SweepRow>& rows);
/// Schema "trainctl.sweep/1".
Json sweep_document(const Sweep& sweep, int exit_code);
/// A line a run.
Table sweep_results(const Sweep& sweep);

}  // namespace trainctl::report
