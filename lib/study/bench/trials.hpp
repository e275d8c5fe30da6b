#pragma once

#include "base/clock.hpp"
#include "report/compare/bench.hpp"
#include "study/bench/parameter_grid.hpp"
#include "study/run/run.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace trainctl::study {

/// Makes the `repeat`-th run (from 0) of the `setting`-th setting, in fresh processes.
using TrialResult = std::variant<report::Trial, report::TrialFailure>;
using RunTrial = std::function<TrialResult(std::size_t setting, int repeat)>;

/// How long a bench goes on.
struct Rounds {
  int repeats = 5;
  std::optional<double> ends_at = {};  // of the clock; none: when all repeats are made
  const Clock* clock = nullptr;        // where there is such an end
};

/// Rounds: A B C, C B A, A B C, ... so that a slow minute of the machine falls on all settings
/// alike, and none always runs first. A
/// run that fails is noted in its row, with setting and repeat, and the row is not run again; one
/// that was stopped by a signal ends the bench. With an end no round begins that would pass it if
/// it took as long as the longest so far; in the first round, whose length nobody knows yet, no run
/// begins after it, the first neither. A run that `run_trial` ended there (overdue) ends the bench,
/// and its row is as it was before.
std::vector<report::BenchRow> run_rounds(std::span<const Setting> settings, const Rounds& rounds,
                                         const RunTrial& run_trial);

/// Whether every setting has run once, well or badly.
bool is_whole_round(std::span<const report::BenchRow> rows);

/// The note of a bench that its budget has ended: with how many of its repeats; empty: with all.
std::string budget_note(std::span<const report::BenchRow> rows, int repeats,
                        const std::string& budget);

/// 0, or the code of the failure that the bench ends with: a stop, else the first in the order of
/// the rows.
int exit_code_of(std::span<const report::BenchRow> rows);

/// Returns why the run did not end well: its exit code, the cause and the folder.
report::TrialFailure failure_of(const RunOutcome& run);

/// One run through the door, without listeners. Of one that did not end well: its exit code, the
/// cause and the folder. At `ends_at` of the clock it is killed, and its failure is overdue.
TrialResult run_trial(const RunRequest& request, const Clock& clock,
                      std::optional<double> ends_at = {});

/// What a bench learns from a run of one batch before it begins.
struct WarmUp {
  std::optional<int> threads;              // that the run has chosen
  std::optional<bool> channels_last = {};  // that the run has chosen
  double taken = 0;                        // share of the cores that others took meanwhile
  std::optional<int> stopped;              // exit code, where a signal ended it
  bool overdue = false;                    // it was killed at its end
};
/// At `ends_at` of the clock it is killed, as a trial is.
WarmUp warm_up(const RunRequest& request, const Clock& clock, std::optional<double> ends_at = {});

/// Ends a run that is still going on at a time of the clock: its processes are killed.
class Deadline {
 public:
  /// Without a time the run takes as long as it takes.
  explicit Deadline(std::optional<double> at) : at_(at) {}

  /// The listener of a run that watches the time.
  [[nodiscard]] Sinks sinks() const;
  /// Whether it has ended the run.
  [[nodiscard]] bool has_struck() const { return *struck_; }

 private:
  std::optional<double> at_;
  std::shared_ptr<bool> struck_ = std::make_shared<bool>(false);
};

/// Called with each step that rank 0 logs.
using OnStep = std::function<void(const events::StepLogged& step)>;

/// Runs the request through the door with that listener alone.
RunOutcome run_with(const RunRequest& request, const OnStep& on_step, const Clock& clock);

/// What cuts any experiment down to its first optimizer steps, each of them told: no validation,
/// nothing that ends it earlier, and nothing kept.
std::vector<std::string> short_run(int steps);

}  // namespace trainctl::study
