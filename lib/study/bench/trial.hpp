#pragma once

#include "base/clock.hpp"
#include "study/bench/trials.hpp"
#include "study/run/run.hpp"

#include <optional>

namespace trainctl::study {

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

}  // namespace trainctl::study
