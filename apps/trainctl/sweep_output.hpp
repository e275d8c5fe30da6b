#pragma once

#include "context.hpp"
#include "report/sweep.hpp"
#include "study/ledger.hpp"
#include "sweep_plan.hpp"

#include <filesystem>
#include <optional>

namespace trainctl::app {

/// What the ledger knows, as tables and documents tell it.
report::Sweep told_sweep(const study::Ledger& ledger, const PlannedSweep& sweep,
                         const SweepFlags& flags, const std::filesystem::path& folder);

/// 130 or 75 where a signal ended it, 5 where runs have failed, else 0.
int exit_code_of(const report::Sweep& sweep, const std::optional<int>& signal);

/// sweep.json and results.csv of its folder, each as a whole or not at all. Throws
/// Error(resource).
void write_sweep_files(const report::Sweep& sweep);

/// The document, or the table with its notes.
void print_sweep(const report::Sweep& sweep, int exit_code, const Context& context);

/// A line about a run that has ended or moved on, where progress is shown.
void say_run(const study::LedgerRun& run, const report::Sweep& sweep, const Context& context);

}  // namespace trainctl::app
