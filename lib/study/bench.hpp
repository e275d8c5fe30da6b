#pragma once

#include "report/bench.hpp"
#include "study/grid.hpp"

#include <functional>
#include <span>
#include <variant>
#include <vector>

namespace trainctl::study {

/// Makes the `repeat`-th run (from 0) of the `setting`-th setting, in fresh processes.
using TrialResult = std::variant<report::Trial, report::TrialFailure>;
using RunTrial = std::function<TrialResult(std::size_t setting, int repeat)>;

/// Rounds: A B C, A B C, ... so that a slow minute of the machine falls on all settings alike. A
/// run that fails is noted in its row, with setting and repeat, and the row is not run again; one
/// that was stopped by a signal ends the bench.
std::vector<report::BenchRow> run_rounds(std::span<const Setting> settings, int repeats,
                                         const RunTrial& run_trial);

/// 0, or the code of the failure that the bench ends with: a stop, else the first in the order of
/// the rows.
int exit_code_of(std::span<const report::BenchRow> rows);

}  // namespace trainctl::study
