#pragma once

#include "report/bench.hpp"
#include "study/grid.hpp"

#include <functional>
#include <span>
#include <vector>

namespace trainctl::study {

/// Makes the `repeat`-th run (from 0) of the `setting`-th setting, in fresh processes.
using RunTrial = std::function<report::Trial(std::size_t setting, int repeat)>;

/// Rounds: A B C, A B C, ... so that a slow minute of the machine falls on all settings alike. An Error of a run ends
/// the bench and names setting and repeat.
std::vector<report::BenchRow> run_rounds(std::span<const Setting> settings, int repeats, const RunTrial& run_trial);

}  // namespace trainctl::study
