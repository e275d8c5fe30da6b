#pragma once

#include "base/files.hpp"
#include "config/diagnostics.hpp"
#include "report/search/tune.hpp"
#include "study/run/run.hpp"
#include "study/tune/paired_trials.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trainctl::study {

// The short runs that tune compares.

/// The length of a short run.
struct TuneLength {
  std::int64_t batches = 0;  // batches per epoch; 0: whole epochs
  double part = 1;           // fraction of an epoch of the experiment
  int epochs = 3;            // the first epoch is a warmup
};

/// Returns the overrides that turn the experiment into such a run. Shortened epochs train on the
/// same first batches in every epoch, so that caches are as warm as in later epochs of a real run.
/// Validation of a `whole` run is shortened by the same fraction.
std::vector<std::string> tuning_run(const spec::Experiment& experiment, const TuneLength& length,
                                    TuneScope scope);

/// Returns the overrides with a constant learning rate instead of the schedule, for a schedule that
/// needs more steps than a short run has.
std::vector<std::string> without_schedule(std::vector<std::string> overrides);

/// Runs `request`, an experiment with the overrides of tuning_run(), in new processes. After
/// `most_s` seconds the processes are killed and the failure is marked overdue; if `most_s` is not
/// positive the run does not start.
TuneResult run_tuning(const RunRequest& request, const TuneLength& length, const Clock& clock,
                      double most_s = kNoLimitS);

/// Returns the target duration of an epoch after the first, in wall seconds, for a total budget.
double epoch_target_s(double budget_s);

/// The result of find_run_length().
struct MeasuredRunLength {
  TuneLength length;
  TuneSample sample;  // of the last run
  int runs = 0;
  double run_s = 0;  // approximate duration of a run of this length
};
using TryLength = std::function<TuneResult(const TuneLength& length)>;

/// Lengthens runs of two epochs from a few batches until the second epoch takes about half of
/// `target_s` or is a whole epoch, then extrapolates the length for `target_s`.
std::variant<MeasuredRunLength, report::TrialFailure> find_run_length(
    const spec::Experiment& experiment, double target_s, const TryLength& try_length);

/// The experiment of the command line, shortened to the runs of tune, with changes applied to it.
class TuneRequests {
 public:
  /// Loads and checks the unchanged experiment; warnings go into `diagnostics`. Throws
  /// Error(config).
  TuneRequests(Invocation invocation, config::Diagnostics& diagnostics);
  /// Makes ROOT/tune/NAME/TIME, in which all runs of the search get their folders.
  const fs::path& make_folder(const fs::path& root);

  [[nodiscard]] const spec::Experiment& experiment() const { return loaded_.experiment; }
  void use_length(const TuneLength& length) { length_ = length; }
  /// Sets the number of threads of all later runs if the experiment leaves it to each run, so that
  /// compared runs use the same number.
  void pin_threads(int threads);
  /// Does the same for the memory format of images.
  void pin_layout(bool channels_last);

  /// Runs the experiment with these changes for at most `most_s` seconds.
  TuneResult run(const report::TuneChanges& changes, TuneScope scope, double most_s);
  /// Returns the experiment with these changes at full length, or why it does not accept them.
  std::variant<spec::Experiment, std::string> check(const report::TuneChanges& changes);

  /// `patch` is the file that the changes are written to.
  [[nodiscard]] report::TuneCommands commands(const report::TuneReport& report,
                                              const fs::path& patch) const;

 private:
  using RequestOrReason =
      std::variant<RunRequest, std::string>;  // or why the request cannot be made

  /// Returns the overrides that pin the choices of `auto` in a run with these changes.
  [[nodiscard]] std::vector<std::string> pins(const report::TuneChanges& changes) const;
  RequestOrReason make(const report::TuneChanges& changes, TuneScope scope);
  RequestOrReason read(const std::vector<std::string>& added);

  Invocation invocation_;
  spec::Loaded loaded_;
  std::optional<RunFolder> folder_;
  TuneLength length_;
  std::optional<int> threads_;
  std::optional<bool> channels_last_;
  bool has_constant_rate_ = false;
  std::map<std::string, RequestOrReason> known_;  // by the overrides
};

/// Finds a suitable run length, then tries one change after the other within the budget. After a
/// signal the report holds the results so far. Throws Error when the unchanged experiment does not
/// run.
report::TuneReport search_settings(const TuneOptions& asked, TuneRequests& requests,
                                   const PrintLine& print);

}  // namespace trainctl::study
