#pragma once

#include "base/clock.hpp"
#include "report/compare/bench.hpp"
#include "study/bench/bench_plan.hpp"
#include "study/run/run.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace trainctl::study {

/// Makes the `repeat`-th run (from 0) of the `setting`-th setting, in new processes.
using TrialResult = std::variant<report::Trial, report::TrialFailure>;
using RunTrial = std::function<TrialResult(std::size_t setting, int repeat)>;

/// How long a bench runs.
struct Rounds {
  int repeats = 5;
  std::optional<double> ends_at = {};  // clock time; absent: after all repeats
  const Clock* clock = nullptr;        // required if ends_at is set
};

/// Runs the settings in rounds, A B C, C B A, A B C, ..., so that a slow minute of the machine
/// affects all settings equally and none always runs first. A failed run is recorded in its row
/// with setting and repeat, and the row is not run again; a run that was stopped by a signal ends
/// the bench. With `ends_at`, no round starts that would exceed the limit if it took as long as the
/// longest round so far; in the first round, whose duration is unknown, no run starts after the
/// limit. A run that `run_trial` killed at the limit (overdue) ends the bench and leaves its row
/// unchanged.
std::vector<report::BenchRow> run_rounds(std::span<const Setting> settings, const Rounds& rounds,
                                         const RunTrial& run_trial);

/// Returns whether every setting has run once, successfully or not.
bool is_whole_round(std::span<const report::BenchRow> rows);

/// Returns a note with the number of repeats that were made if the budget ended the bench; empty if
/// all were made.
std::string budget_note(std::span<const report::BenchRow> rows, int repeats,
                        const std::string& budget);

/// Returns 0, or the exit code of the failure that the bench ends with: a stop signal, else the
/// first failure in row order.
int exit_code_of(std::span<const report::BenchRow> rows);

/// Returns the failure of a run: its exit code, the cause and the folder.
report::TrialFailure failure_of(const RunOutcome& run);

/// Makes one run with run_experiment(), without listeners. A failed run returns its exit code, the
/// cause and the folder. At the clock time `ends_at` the run is killed, and its failure is marked
/// overdue.
TrialResult run_trial(const RunRequest& request, const Clock& clock,
                      std::optional<double> ends_at = {});

/// The result of a run of one batch before the bench.
struct WarmUp {
  std::optional<int> threads;              // chosen by the run
  std::optional<bool> channels_last = {};  // chosen by the run
  double taken = 0;            // fraction of the cores that other processes used meanwhile
  std::optional<int> stopped;  // exit code if a signal ended the run
  bool overdue = false;        // the run was killed at its deadline
};
/// Makes the warm-up run. It is killed at the clock time `ends_at`, like a trial.
WarmUp warm_up(const RunRequest& request, const Clock& clock, std::optional<double> ends_at = {});

/// Kills the processes of a run that is still running at a given clock time.
class Deadline {
 public:
  /// Without a time the run has no limit.
  explicit Deadline(std::optional<double> at) : at_(at) {}

  /// Returns the listener that checks the time during the run.
  [[nodiscard]] Sinks sinks() const;
  /// Returns whether the deadline has killed the run.
  [[nodiscard]] bool has_expired() const { return *expired_; }

 private:
  std::optional<double> at_;
  std::shared_ptr<bool> expired_ = std::make_shared<bool>(false);
};

/// Called for each step that rank 0 logs.
using OnStep = std::function<void(const events::StepLogged& step)>;

/// Runs the request with run_experiment() and calls `on_step` as its only listener.
RunOutcome run_with(const RunRequest& request, const OnStep& on_step, const Clock& clock);

/// Returns the overrides that shorten an experiment to its first optimizer steps and log each of
/// them: no validation, no early stop, and nothing saved.
std::vector<std::string> short_run(int steps);

}  // namespace trainctl::study
