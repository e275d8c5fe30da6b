#pragma once

#include "events/records.hpp"
#include "report/text/table.hpp"

namespace trainctl::report {

/// pruned: the run was stopped at a rung because others were better; its checkpoint exists.
enum class SweepStatus { pending, running, ok, failed, pruned };
constexpr std::array<const char*, 5> enum_names(SweepStatus) {
  return {"pending", "running", "ok", "failed", "pruned"};
}

/// Pairs of a key of the experiment file and its value as YAML.
using Overrides = std::vector<std::pair<std::string, std::string>>;

/// One run of a sweep: a setting with one seed and, in a cross-validation, one fold.
struct SweepRun {
  std::string id;         // "0007"
  std::size_t group = 0;  // shared by runs that differ only in seed and fold
  std::uint64_t seed = 0;
  std::optional<int> fold;
  Overrides overrides;
  SweepStatus status = SweepStatus::pending;
  std::optional<int> exit_code;
  std::string message;                                  // of a failed run
  std::vector<std::pair<std::string, double>> metrics;  // "val/accuracy" of the last epoch
  std::optional<double> value;                          // of the monitor in its best epoch
  std::string run_dir;
  std::int64_t epochs = 0;                // completed
  double wall_s = 0;                      // of all its starts
  std::optional<std::int64_t> pruned_at;  // in epochs
};

enum class Against { best, first };
constexpr std::array<const char*, 2> enum_names(Against) { return {"best", "first"}; }
enum class Better { lower, higher };

/// The current state of a sweep. The runs are in the order of its definition.
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

/// One setting over its seeds or folds.
struct SweepRow {
  std::size_t group = 0;
  Overrides overrides;
  SweepStatus status = SweepStatus::pending;  // failed if one run failed, ok if all are ok
  std::vector<std::string> run_ids;
  std::int64_t epochs = 0;  // minimum of its runs
  double wall_s = 0;        // mean of its runs
  MeanInterval value;       // of the monitor, over the folds or else the seeds
  /// In a cross-validation: the value of each fold, averaged over the seeds.
  std::vector<std::optional<double>> folds;
  MeanInterval difference;  // from the reference row, fold by fold or else seed by seed
  bool is_reference = false;
  std::optional<bool> tied;  // equal within the noise; needs two seeds
};

/// The most folds for which a table has a column each.
inline constexpr std::size_t kMostFoldColumns = 10;

/// Returns the number of folds of a cross-validation; 0 without one.
std::size_t folds_of(const Sweep& sweep);
/// Returns the keys that any run sets, in order of appearance.
std::vector<std::string> sweep_keys(const Sweep& sweep);
/// Returns the value of a key; empty if it is not set.
std::string override_of(const Overrides& overrides, const std::string& key);
std::size_t runs_with(const Sweep& sweep, SweepStatus status);

/// Returns the rows, the best first: settings whose runs are all complete, then pruned settings,
/// the longest first, then failed or unfinished ones.
std::vector<SweepRow> sweep_rows(const Sweep& sweep);

/// Returns a table of rank, a column for each varied key, the monitor with its interval,
/// difference, epochs, time, status. A cross-validation adds the deviation and the folds.
Table sweep_table(const Sweep& sweep, const std::vector<SweepRow>& rows);
/// Returns plain text: what the columns mean, how many settings are tied, which runs failed and
/// why.
std::string sweep_notes(const Sweep& sweep, const std::vector<SweepRow>& rows);
/// Returns a document with schema "trainctl.sweep/2".
Json sweep_document(const Sweep& sweep, int exit_code);
/// Returns a table with one row per run.
Table sweep_results(const Sweep& sweep);

}  // namespace trainctl::report
