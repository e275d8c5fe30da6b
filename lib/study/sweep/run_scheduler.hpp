#pragma once

#include "report/search/sweep.hpp"
#include "study/sweep/sweep.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace trainctl::study {

/// The run to start next, pending with a target before it: one that was begun and stopped, or the
/// other seeds of its setting; else a setting that is promoted; else the first that is not begun.
/// Nothing where all that is left waits for those that run, or is not good enough.
std::optional<LedgerRun> next_run(Ledger& ledger, const SweepPlan& plan);

/// Epochs at which runs are judged: `least`, eta times that, and so on; the last is `most`. Throws
/// Error(config) where these do not fit.
std::vector<std::int64_t> rungs_of(std::int64_t least, std::int64_t most, int eta);

/// Asynchronous successive halving (Li et al., "A System for Massively Parallel Hyperparameter
/// Tuning", 2018, algorithm 2): a setting that is among the best eta-th of those that have come to
/// its rung goes on to the next, as soon as it is; nobody waits for a rung to be full. A pure
/// function of what was reported, in any order.
class Halving {
 public:
  /// `rungs` in all, at least one.
  Halving(std::size_t rungs, int eta, report::Better better)
      : eta_(eta), better_(better), rungs_(rungs) {}

  /// A setting has come to a rung, from 0. Absent or not finite: it failed, and counts as the
  /// worst.
  void report(std::size_t rung, std::size_t setting, std::optional<double> value);
  /// The setting was begun towards this rung: it is not promoted to it again.
  void begin(std::size_t rung, std::size_t setting);

  struct Promotion {
    std::size_t setting = 0;
    std::size_t rung = 0;  // to which it goes on
  };
  /// The best setting of the highest rung that may go on; nothing where none may. Of equal ones
  /// the first.
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
