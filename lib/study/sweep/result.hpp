#pragma once

#include "base/files.hpp"
#include "report/search/sweep.hpp"
#include "study/sweep/ledger.hpp"

#include <optional>
#include <string>

namespace trainctl::study {

/// By which the runs of a sweep are ranked.
struct Ranking {
  std::string monitor;
  report::Better better = report::Better::lower;
};

/// Of result.json as it lies in the run folder; empty where there is none.
std::string result_hash(const fs::path& run_dir);

/// How the run of the folder says that it ended: nothing where result.json is missing, cannot be
/// read, is still the one with that hash, or tells of a run that has not ended.
std::optional<RunEnd> run_end(const fs::path& run_dir, const std::string& result_before,
                              const Ranking& ranking);

/// The value of the monitor by what the ledger has of a run: its last epoch.
std::optional<double> value_in(const LedgerRun& run, const Ranking& ranking);

/// The last line of a log that says something; empty where there is none.
std::string last_words(const fs::path& log);

/// The value of the monitor in the best epoch that epochs.csv tells; nothing where it has no such
/// column.
std::optional<double> best_in_table(const fs::path& epochs_csv, const Ranking& ranking);

}  // namespace trainctl::study
