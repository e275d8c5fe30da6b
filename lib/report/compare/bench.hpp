#pragma once

#include "base/json.hpp"
#include "base/statistics.hpp"
#include "report/compare/statistics.hpp"
#include "report/record/run_record.hpp"
#include "report/text/table.hpp"

namespace trainctl::report {

/// The rank whose own work and waits for data took longest, and by which share longer than the
/// median.
struct SlowRank {
  int rank = 0;
  double behind = 0;
};

/// What one run of a bench gave.
struct Trial {
  double total_s = 0;        // from the start of its first process to the end of its last
  double startup_s = 0;      // from exec until the worker had loaded its libraries
  double first_batch_s = 0;  // from the start of the first epoch until its first batch was there
  std::vector<double> epoch_s;
  double samples_per_s = 0;             // steady epochs
  std::vector<double> losses;           // train/loss of each epoch
  std::string data_digest;              // of every training batch; empty where it was not computed
  std::int64_t global_batch = 0;        // samples of a batch over all ranks; 0: not told
  int num_threads = 0;                  // CPU threads of a process; 0: not told
  std::optional<double> exposed_s;      // a step waited for other ranks, mean of the ranks
  std::optional<double> exposed_share;  // of the step
  std::optional<SlowRank> slowest;      // of several ranks
  double rss_mb = 0;                    // peak memory of rank 0; 0: not told
  std::optional<double> gpu_mem_mb;     // peak of its GPU
  double taken = 0;                     // share of the cores that others took; 0: held nothing up
  events::Metrics metrics;              // of the last epoch: train/loss, val/accuracy
};
Trial trial_of(const RunRecord& record, double total_s);

/// A run of a bench that did not end well.
struct TrialFailure {
  int exit_code = 1;
  std::string message;   // which run, why, and its folder
  bool killed = false;   // a worker was, by SIGKILL: perhaps for want of memory
  bool overdue = false;  // it was ended, since it took longer than it might
};

/// One setting and its repeats.
struct BenchRow {
  std::string technique;
  std::vector<std::pair<std::string, std::string>> settings;  // key -> value as YAML
  std::vector<Trial> trials;                                  // those that ended well
  std::optional<TrialFailure> failure;  // after which the row was not run again
};

/// A row against the first one.
struct RowSummary {
  Quartiles total_s;
  std::vector<double> epoch_s;  // median over the repeats, for each epoch
  double steady_epoch_s = 0;    // median of the epochs after the first
  double startup_s = 0;         // median
  double first_batch_s = 0;     // median
  double rss_mb = 0;            // median
  double samples_per_s = 0;     // median
  Speedup speedup;              // of total_s
  Speedup epoch_speedup;        // of the steady epochs
  std::optional<bool>
      same_batches;  // as the first row's, in every repeat; nothing where no digest is known
  std::optional<bool> same_losses;  // bit by bit; nothing where no epoch ended
};
std::vector<RowSummary> summarize(std::span<const BenchRow> rows);

/// Whether every repeat of `row` had the batches of the first of `base`; nothing where a digest is
/// not known.
std::optional<bool> same_batches(const BenchRow& base, const BenchRow& row);
/// The furthest that a loss of any repeat of `row` is from that of the same epoch in the first of
/// `base`, as a share of the larger; nothing where there is none, or where one alone is not finite.
std::optional<double> loss_gap(const BenchRow& base, const BenchRow& row);
/// "same", "differ"; "?" where it is not known.
std::string same_text(const std::optional<bool>& same);
/// "same", "within 1e-06" (up to 1e-4), "differ"; "?" where it is not known.
std::string loss_text(const std::optional<double>& gap);

/// The median of the epochs after the first; of the first where there is no other.
double steady_epoch_s(const Trial& trial);

/// technique, total, epoch, samples/s, speed-ups, final loss, identity.
Table bench_table(std::span<const BenchRow> rows);
/// What the first table leaves out: start-up, time to the first batch, first epoch and memory, and
/// the mean training loss of each epoch (of many epochs ten, the first and the last among them).
Table epochs_table(std::span<const BenchRow> rows);
/// The lines below the tables: what the columns mean. Plain text with its newlines.
std::string bench_notes(std::span<const BenchRow> rows);
/// A warning where others took the cores during some runs; empty: none did.
std::string contention_warning(std::span<const BenchRow> rows);
/// A line for each run, all numbers as they are: technique, the keys that vary, repeat, times,
/// memory, metrics, digest.
Table trials_table(std::span<const BenchRow> rows);

/// What a bench compares under, so that another day's can be compared with it.
struct BenchSetup {
  std::string config;      // path of the experiment file
  Json machine = nullptr;  // machine_key()
  std::string config_hash;
  std::string config_resolved;  // of the first row, as YAML
};
/// Schema "trainctl.bench/1".
Json bench_document(std::span<const BenchRow> rows, const BenchSetup& setup);

/// Numbers of the runs of one setting by name, each in the order of the repeats. A number that one
/// of the runs does not tell is left out.
using Samples = std::map<std::string, std::vector<double>>;

/// What every run tells, or may, beside the metrics of its last epoch ("train/loss").
inline constexpr std::array kMeasures{"samples_per_s", "total_s", "epoch_s",    "startup_s",
                                      "first_batch_s", "rss_mb",  "gpu_mem_mb", "exposed_s"};

Samples samples_of(std::span<const Trial> trials);

}  // namespace trainctl::report
