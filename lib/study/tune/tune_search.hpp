#pragma once

#include "base/files.hpp"
#include "config/diagnostics.hpp"
#include "report/search/tune.hpp"
#include "study/run/run.hpp"
#include "study/tune/paired_trials.hpp"
#include "study/tune/tune.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trainctl::study {

// The short runs that tune compares.

struct TuneLength {
  std::int64_t batches = 0;  // of an epoch; 0: whole epochs
  double part = 1;           // of an epoch of the experiment
  int epochs = 3;            // the first of which warms up
};

/// What turns the experiment into such a run. Shortened epochs train on the first batches, the same
/// in every epoch, so that caches are as warm as in later epochs of a real run. Validation of a
/// whole run is shortened alike.
std::vector<std::string> tuning_run(const spec::Experiment& experiment, const TuneLength& length,
                                    TuneScope scope);

/// The same with a constant rate, where the schedule asks for more steps than so short a run has.
std::vector<std::string> without_schedule(std::vector<std::string> overrides);

/// Runs `request`, an experiment with the overrides of tuning_run(), in fresh processes. After
/// `most_s` they are killed, and its failure is overdue; with none left it does not begin.
TuneResult run_tuning(const RunRequest& request, const TuneLength& length, const Clock& clock,
                      double most_s = kNoLimitS);

/// Wall seconds of an epoch after the first that runs aim at, by the time that all may take.
double epoch_target_s(double budget_s);

/// What scouting found.
struct TuneScouted {
  TuneLength length;
  TuneSample sample;  // of the last run
  int runs = 0;
  double run_s = 0;  // that a run of the length will take, about
};
using TryLength = std::function<TuneResult(const TuneLength& length)>;

/// Lengthens two epochs from a few batches until the second takes about half of `target_s`, or is
/// whole, then reckons the length for the whole of it.
std::variant<TuneScouted, report::TrialFailure> scout(const spec::Experiment& experiment,
                                                      double target_s, const TryLength& try_length);

/// The experiment of the command line, cut down to the short runs of tune, with changes laid over
/// it.
class TuneRequests {
 public:
  /// Reads and checks the experiment as it is; its warnings are in `diagnostics`. Throws
  /// Error(config).
  TuneRequests(Invocation invocation, config::Diagnostics& diagnostics);
  /// Makes ROOT/tune/NAME/TIME, in which all runs of the search get their folders.
  const fs::path& make_folder(const fs::path& root);

  [[nodiscard]] const spec::Experiment& experiment() const { return loaded_.experiment; }
  void use_length(const TuneLength& length) { length_ = length; }
  /// Where the experiment leaves the number to each run, all have this one from now on: else a run
  /// might measure another than that which it is compared with.
  void pin_threads(int threads);
  /// The same for the memory format of images.
  void pin_layout(bool channels_last);

  TuneResult run(const report::TuneChanges& changes, TuneScope scope, double most_s);
  /// The experiment with these changes, at its full length, or why it does not take them.
  std::variant<spec::Experiment, std::string> check(const report::TuneChanges& changes);

  /// `patch`: the file that the changes are written to.
  [[nodiscard]] report::TuneCommands commands(const report::TuneReport& report,
                                              const fs::path& patch) const;

 private:
  using Made = std::variant<RunRequest, std::string>;  // or why there is none

  /// The overrides that pin the choices of `auto` in a run with these changes.
  [[nodiscard]] std::vector<std::string> pins(const report::TuneChanges& changes) const;
  Made make(const report::TuneChanges& changes, TuneScope scope);
  Made read(const std::vector<std::string>& added);

  Invocation invocation_;
  spec::Loaded loaded_;
  std::optional<RunFolder> folder_;
  TuneLength length_;
  std::optional<int> threads_;
  std::optional<bool> channels_last_;
  bool has_constant_rate_ = false;
  std::map<std::string, Made> known_;  // by the overrides
};

/// Finds out how long runs have to be, then tries one change after the other within the budget.
/// What is known when a signal comes is in the report. Throws Error where the experiment does not
/// run as it is.
report::TuneReport search_settings(const TuneWish& asked, TuneRequests& requests,
                                   const PrintLine& print);

}  // namespace trainctl::study
