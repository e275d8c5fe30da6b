#pragma once

#include "base/clock.hpp"
#include "report/compare/bench.hpp"
#include "study/run/run.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl::study {

/// One key of the experiment file and the values to try, as YAML text.
struct Axis {
  std::string key;
  std::vector<std::string> values;
};

/// Splits at commas outside brackets and quotes, and strips the surrounding spaces.
std::vector<std::string> split_values(std::string_view text);
/// Returns the arguments of a call: "range(1,10)" with name "range" -> "1,10". Returns nullopt if
/// the text is not a call of this name.
std::optional<std::string_view> call_of(std::string_view text, std::string_view name);

/// Parses "0,4,8", "range(1,10,3)" (start, exclusive stop, step) or "choice(a,b)". Commas inside
/// brackets and quotes do not split: "[128,64],[256]" has two values. Throws Error(config) for an
/// empty list, an empty value or a repeated value.
Axis parse_axis(std::string key, std::string_view values);
/// Parses the same from "key=values".
Axis parse_grid(std::string_view text);

/// One point of the grid.
struct Setting {
  std::string technique;  // "num_workers=4, devices=2"; "as configured" without an axis
  std::vector<std::pair<std::string, std::string>> values;   // key -> value
  [[nodiscard]] std::vector<std::string> overrides() const;  // "loader.num_workers=4"
};

/// Returns every combination; the last axis varies fastest. Names use the last component of each
/// key ("strategy" for distributed.type), or the whole keys if two would be equal. Throws
/// Error(config) for a repeated key or more than 1,000 combinations.
std::vector<Setting> product(std::span<const Axis> axes);

/// Returns the number of devices of a setting; nullopt if the setting does not set it. Throws
/// Error(config) when the value is not a number, such as `auto`.
std::optional<int> devices_of(const Setting& setting);

/// Returns the batch size per device of `setting`, from the experiment with the setting's
/// overrides.
using BatchOf = std::function<std::int64_t(const Setting& setting)>;

/// Strong scaling: sets the batch size per device so that a step has as many samples as with the
/// first number of devices. Throws Error(config) when the samples cannot be divided evenly, or when
/// no setting names devices.
void keep_global_batch(std::vector<Setting>& settings, const BatchOf& batch_of);

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
