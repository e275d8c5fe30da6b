#pragma once

#include "study/run/run.hpp"
#include "study/tune/paired_trials.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

// The short runs that tune compares.

namespace trainctl::study {

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

}  // namespace trainctl::study
