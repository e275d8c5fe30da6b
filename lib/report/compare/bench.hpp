#pragma once

#include "report/record/run_record.hpp"
#include "report/text/table.hpp"

namespace trainctl::report {

/// The rank with the longest own work and data wait, and how much longer it took than the median,
/// as a fraction of the median.
struct SlowRank {
  int rank = 0;
  double slowdown = 0;
};

/// The measurements of one run of a bench.
struct Trial {
  double total_s = 0;        // from the start of the first process to the exit of the last
  double startup_s = 0;      // from exec until the worker's libraries were loaded
  double first_batch_s = 0;  // from the start of the first epoch to its first batch
  std::vector<double> epoch_s;
  double samples_per_s = 0;             // in the steady epochs
  std::vector<double> losses;           // train/loss of each epoch
  std::string data_digest;              // of every training batch; empty: not computed
  std::int64_t global_batch = 0;        // samples per batch over all ranks; 0: unknown
  int num_threads = 0;                  // CPU threads per process; 0: unknown
  std::optional<double> exposed_s;      // wait for other ranks in a step, mean of the ranks
  std::optional<double> exposed_share;  // as a fraction of the step
  std::optional<SlowRank> slowest;      // if there are several ranks
  double rss_mb = 0;                    // peak memory of rank 0; 0: unknown
  std::optional<double> gpu_mem_mb;     // peak memory of rank 0's GPU
  double taken = 0;                     // fraction of the cores used by others; 0: no delay
  events::Metrics metrics;              // of the last epoch: train/loss, val/accuracy
};
/// Collects the measurements of a run from its record; `total_s` is measured outside.
Trial trial_of(const RunRecord& record, double total_s);

/// A failed run of a bench.
struct TrialFailure {
  int exit_code = 1;
  std::string message;   // which run, why, and its folder
  bool killed = false;   // a worker was killed by SIGKILL, perhaps out of memory
  bool overdue = false;  // the run was killed because it exceeded its time limit
};

/// One setting and its repeats.
struct BenchRow {
  std::string technique;
  std::vector<std::pair<std::string, std::string>> settings;  // key -> value as YAML
  std::vector<Trial> trials;                                  // successful runs
  std::optional<TrialFailure> failure;                        // the row was not run again after it
};

/// A row compared with the first row.
struct RowSummary {
  Quartiles total_s;
  std::vector<double> epoch_s;       // median over the repeats, for each epoch
  double steady_epoch_s = 0;         // median of the epochs after the first
  double startup_s = 0;              // median
  double first_batch_s = 0;          // median
  double rss_mb = 0;                 // median
  double samples_per_s = 0;          // median
  Speedup speedup;                   // of total_s
  Speedup epoch_speedup;             // of the steady epochs
  std::optional<bool> same_batches;  // same as the first row's in every repeat; absent: no digest
  std::optional<bool> same_losses;   // bitwise; absent: no epoch ended
};
/// Compares each row with the first row.
std::vector<RowSummary> summarize(std::span<const BenchRow> rows);

/// Returns whether every repeat of `row` had the batches of the first repeat of `base`; nullopt if
/// a digest is unknown.
std::optional<bool> same_batches(const BenchRow& base, const BenchRow& row);
/// Returns the largest relative difference between a loss of any repeat of `row` and the loss of
/// the same epoch in the first repeat of `base`, relative to the larger one; nullopt if there are
/// no losses, or if only one of two losses is finite.
std::optional<double> loss_gap(const BenchRow& base, const BenchRow& row);
/// Returns "same" or "differ"; "?" if unknown.
std::string same_text(const std::optional<bool>& same);
/// Returns "same", "within 1e-06" (up to 1e-4) or "differ"; "?" if unknown.
std::string loss_text(const std::optional<double>& gap);

/// Returns the median duration of the epochs after the first; of the first if there is no other.
double steady_epoch_s(const Trial& trial);

/// Returns a table of technique, total, epoch, samples/s, speedups, final loss, identity.
Table bench_table(std::span<const BenchRow> rows);
/// Returns a table of the values that the first table omits: startup, time to the first batch,
/// first epoch and memory, and the mean training loss of each epoch (at most ten epochs, including
/// the first and the last).
Table epochs_table(std::span<const BenchRow> rows);
/// Returns plain-text lines below the tables that explain the columns.
std::string bench_notes(std::span<const BenchRow> rows);
/// Returns a warning if other processes used the cores during some runs; else empty.
std::string contention_warning(std::span<const BenchRow> rows);
/// Returns a table with a row for each run and unrounded numbers: technique, the varied keys,
/// repeat, times, memory, metrics, digest.
Table trials_table(std::span<const BenchRow> rows);

/// The conditions of a bench, recorded so that a bench of another day can be compared with it.
struct BenchSetup {
  std::string config;      // path of the experiment file
  Json machine = nullptr;  // machine_key()
  std::string config_hash;
  std::string config_resolved;  // of the first row, as YAML
};
/// Returns a document with schema "trainctl.bench/2".
Json bench_document(std::span<const BenchRow> rows, const BenchSetup& setup);

/// The numbers of the runs of one setting by name, in the order of the repeats. A number that one
/// of the runs lacks is left out.
using Samples = std::map<std::string, std::vector<double>>;

/// The measures of every run, some optional, in addition to the metrics of its last epoch
/// ("train/loss").
inline constexpr std::array kMeasures{"samples_per_s", "total_s", "epoch_s",    "startup_s",
                                      "first_batch_s", "rss_mb",  "gpu_mem_mb", "exposed_s"};

/// Collects the measures and metrics of the runs.
Samples samples_of(std::span<const Trial> trials);

}  // namespace trainctl::report
