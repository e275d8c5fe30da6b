#pragma once

#include "report/search/lr_curve.hpp"
#include "study/run/run.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::study {

/// The rates that are tried: one a step, each the same multiple of the one before.
struct LrRange {
  double low = 1e-6;
  double high = 10;
  int steps = 200;
};

/// A rate beside optimizer.lr, which rises with it.
struct SecondRate {
  std::string key;   // "optimizer.adamw_lr"
  double ratio = 1;  // over optimizer.lr, before, during and after the sweep
};

/// That of the experiment, if it gives one beside a rate above 0.
std::optional<SecondRate> second_rate(const spec::Experiment& experiment);

/// What turns an experiment into the sweep: the scheduler, the length, an end where the smoothed
/// loss is out of hand, and neither validation nor anything that would be kept. Throws
/// Error(config) where the range is none.
std::vector<std::string> lr_sweep(const LrRange& range, const std::optional<SecondRate>& second);

struct LrFinding {
  RunOutcome run;  // exit code 6 is how a sweep usually ends
  report::LrCurve curve;
  std::optional<SecondRate> second;
  std::size_t tried = 0;       // rates whose loss is known
  bool stopped_early = false;  // since the loss was out of hand
};

/// Runs `request`, an experiment with the overrides of lr_sweep(), in fresh processes, and writes
/// lr_find.csv into its run folder. `second`: what lr_sweep() was given.
LrFinding find_lr(const RunRequest& request, const std::optional<SecondRate>& second,
                  const Clock& clock);

/// The overrides that the finding comes down to; none where nothing is suggested.
std::vector<std::string> overrides_of(const LrFinding& finding);

/// 0 where a rate is suggested; else the run's own, or 4: what it told is not enough.
int exit_code_of(const LrFinding& finding);

}  // namespace trainctl::study
