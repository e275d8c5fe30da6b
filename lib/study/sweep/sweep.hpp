#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "report/search/sweep.hpp"
#include "study/sweep/ledger.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::study {

/// The criterion by which the runs of a sweep are ranked.
struct Ranking {
  std::string monitor;
  report::Better better = report::Better::lower;
};

/// Returns the hash of result.json in the run folder; empty if the file does not exist.
std::string result_hash(const fs::path& run_dir);

/// Returns how the run in the folder ended. Returns nullopt if result.json is missing, cannot be
/// read, still has the hash `result_before`, or belongs to a run that has not ended.
std::optional<RunEnd> run_end(const fs::path& run_dir, const std::string& result_before,
                              const Ranking& ranking);

/// Returns the monitor's value in the last epoch that the ledger has for a run.
std::optional<double> value_in(const LedgerRun& run, const Ranking& ranking);

/// Returns the last line of a log that is not empty; empty if all are.
std::string last_log_line(const fs::path& log);

/// Returns the monitor's value in the best epoch of epochs.csv; nullopt if it has no such column.
std::optional<double> best_in_table(const fs::path& epochs_csv, const Ranking& ranking);

enum class OnFailure { keep_going, fail_fast };

/// How the runs of a ledger are executed.
struct SweepPlan {
  fs::path folder;  // absolute folder of the ledger, runs/ and logs/
  Ranking ranking;
  std::vector<std::int64_t> rungs;  // epochs at which runs are compared; one: no early stopping
  int eta = 3;
  int jobs = 1;  // concurrent runs
  int retries = 1;
  OnFailure on_failure = OnFailure::keep_going;
};

/// One start of a run.
struct SweepJob {
  std::int64_t number = 0;
  PlannedRun plan;
  fs::path run_dir;
  std::optional<std::int64_t> until_epoch;  // absent: to its end
};

/// A run of the sweep in a separate process.
class JobProcess {
 public:
  virtual ~JobProcess() = default;
  /// Returns the exit code after the process has exited, 128 + N if signal N ended it; nullopt
  /// while it is running.
  virtual std::optional<int> poll_exit_code() = 0;
  virtual void signal(int number) = 0;
};

/// The operations that the loop cannot perform itself.
struct SweepHooks {
  std::function<std::unique_ptr<JobProcess>(const SweepJob& job)> start;
  /// Waits for a signal, the exit of a child or that many seconds; returns the stop signals.
  std::function<std::vector<int>(double seconds)> wait;
  /// Called after runs have ended or advanced, with their state in the ledger.
  std::function<void(std::span<const LedgerRun> runs)> on_update;
  const Clock& clock;
};

/// How run_sweep() ended.
struct SweepEnd {
  std::optional<int> signal;  // the signal that ended the sweep
  bool failed_fast = false;
};

/// Returns the number as "0007".
std::string run_id(std::int64_t number);
/// Returns the folder of a run below the sweep's folder.
fs::path run_folder(const fs::path& sweep, std::int64_t number);

/// Makes the unfinished runs of the ledger's definition. A run that the ledger lists as running was
/// left by a killed sweep: if its folder says how it ended, that result is used, else it resumes
/// from its newest checkpoint. A run that lacked resources (exit code 11, or the run or one of its
/// ranks was killed by SIGKILL) is retried after a pause with one concurrent run less; each
/// successful run restores one. A stop signal is sent to the runs as SIGTERM, so that they save; a
/// second one kills them. Throws Error(resource) when a run of a killed sweep is still alive, or
/// when the ledger fails.
SweepEnd run_sweep(Ledger& ledger, const SweepPlan& plan, const SweepHooks& hooks);

/// Returns whether nothing is left to run.
bool is_finished(const std::vector<LedgerRun>& runs);

/// Pause after a resource error, in seconds.
inline constexpr double kRetryPauseS = 3;

/// Returns the run to start next, which is pending with a target: first a run that was started and
/// stopped, or the other seeds of its setting; then a setting that is promoted; then the first
/// setting that has not started. Returns nullopt if all remaining runs wait for running ones or are
/// not good enough.
std::optional<LedgerRun> next_run(Ledger& ledger, const SweepPlan& plan);

/// Returns the epochs at which runs are compared: `least`, then eta times as many, and so on; the
/// last one is `most`. Throws Error(config) when these do not fit.
std::vector<std::int64_t> rungs_of(std::int64_t least, std::int64_t most, int eta);

/// Asynchronous successive halving (Li et al., "A System for Massively Parallel Hyperparameter
/// Tuning", 2018, algorithm 2): a setting is promoted as soon as it is among the best 1/eta of
/// those that have reached its rung, without waiting for the rung to fill up. The result depends
/// only on the reported values, not on their order.
class Halving {
 public:
  /// `rungs` is the number of rungs, at least one.
  Halving(std::size_t rungs, int eta, report::Better better)
      : eta_(eta), better_(better), rungs_(rungs) {}

  /// Records that a setting has reached a rung, counted from 0. A value that is absent or not
  /// finite means that the run failed, and ranks last.
  void report(std::size_t rung, std::size_t setting, std::optional<double> value);
  /// Records that the setting was started towards this rung, so that it is not promoted to it
  /// again.
  void begin(std::size_t rung, std::size_t setting);

  struct Promotion {
    std::size_t setting = 0;
    std::size_t rung = 0;  // the rung it is promoted to
  };
  /// Returns the best promotable setting of the highest rung; nullopt if no setting can advance.
  /// Ties go to the first setting.
  [[nodiscard]] std::optional<Promotion> next() const;

 private:
  struct Rung {
    std::map<std::size_t, std::optional<double>> values;  // by setting
    std::map<std::size_t, bool> begun;
  };

  int eta_;
  report::Better better_;
  std::vector<Rung> rungs_;
};

}  // namespace trainctl::study
