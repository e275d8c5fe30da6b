#pragma once

#include "study/sweep/sweep.hpp"

#include <optional>

namespace trainctl::study {

/// The run to start next, pending with a target before it: one that was begun and stopped, or the
/// other seeds of its setting; else a setting that is promoted; else the first that is not begun.
/// Nothing where all that is left waits for those that run, or is not good enough.
std::optional<LedgerRun> next_run(Ledger& ledger, const SweepPlan& plan);

}  // namespace trainctl::study
