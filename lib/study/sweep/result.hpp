#pragma once

#include "base/files.hpp"
#include "report/search/sweep.hpp"
#include "study/sweep/ledger.hpp"

#include <optional>
#include <string>

namespace trainctl::study {

/// The criterion by which the runs of a sweep are ranked.
struct Ranking {
  std::string monitor;
  report::Better better = report::Better::lower;
};

/// Returns the hash of result.json in the run folder; empty if the file does not exist.
std::string result_hash(const fs::path& run_dir);

/// Returns how the run in the folder ended. Returns nullopt if result.json is missing, cannot be
/// read, still has the hash `result_before`, or belongs to a run that has not ended.
std::optional<RunEnd> run_end(const fs::path& run_dir, const std::string& result_before,
                              const Ranking& ranking);

/// Returns the monitor's value in the last epoch that the ledger has for a run.
std::optional<double> value_in(const LedgerRun& run, const Ranking& ranking);

/// Returns the last line of a log that is not empty; empty if all are.
std::string last_log_line(const fs::path& log);

/// Returns the monitor's value in the best epoch of epochs.csv; nullopt if it has no such column.
std::optional<double> best_in_table(const fs::path& epochs_csv, const Ranking& ranking);

}  // namespace trainctl::study
