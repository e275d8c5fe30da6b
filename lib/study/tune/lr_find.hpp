#pragma once

#include "report/search/lr_curve.hpp"
#include "study/run/run.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// The learning rates to try: one per step, each the same multiple of the previous one.
struct LrRange {
  double low = 1e-6;
  double high = 10;
  int steps = 200;
};

/// A second learning rate that rises in proportion to optimizer.lr.
struct SecondRate {
  std::string key;   // "optimizer.adamw_lr"
  double ratio = 1;  // relative to optimizer.lr, before, during and after the sweep
};

/// Returns the experiment's second rate, if it sets one and optimizer.lr is above 0.
std::optional<SecondRate> second_rate(const spec::Experiment& experiment);

/// Returns the overrides that keep the rates of other optimizers in optimizer.groups constant.
std::vector<std::string> held_groups(const spec::Experiment& experiment);

/// Returns the overrides that turn an experiment into the sweep: the scheduler, the length, a stop
/// when the smoothed loss explodes, no validation and no saving. Throws Error(config) when the
/// range is invalid.
std::vector<std::string> lr_sweep(const LrRange& range, const std::optional<SecondRate>& second);

/// The result of a learning-rate sweep.
struct LrFinding {
  RunOutcome run;  // usually ends with exit code 6
  report::LrCurve curve;
  std::optional<SecondRate> second;
  std::size_t tried = 0;       // rates with a known loss
  bool stopped_early = false;  // the loss exploded before the last rate
};

/// Runs `request`, an experiment with the overrides of lr_sweep(), in new processes, and writes
/// lr_find.csv into its run folder. `second` must be the value passed to lr_sweep().
LrFinding find_lr(const RunRequest& request, const std::optional<SecondRate>& second,
                  const Clock& clock);

/// Returns the overrides for the suggested rate; empty if no rate is suggested.
std::vector<std::string> overrides_of(const LrFinding& finding);

/// Returns 0 if a rate is suggested, else the exit code of the run, or 4 if the run has too few
/// losses.
int exit_code_of(const LrFinding& finding);

}  // namespace trainctl::study
