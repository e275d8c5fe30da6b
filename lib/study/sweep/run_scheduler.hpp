#pragma once

#include "report/search/sweep.hpp"
#include "study/sweep/sweep.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace trainctl::study {

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
