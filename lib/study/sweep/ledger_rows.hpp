#pragma once

#include "study/sweep/ledger.hpp"
#include "study/sweep/ledger_database.hpp"

#include <string>
#include <utility>
#include <vector>

// How runs are written into the tables of a ledger, and read back.

namespace trainctl::study {

std::string text_of(const report::Overrides& overrides);
/// Those that are numbers.
std::string text_of(const std::vector<std::pair<std::string, double>>& metrics);

inline constexpr const char* kDefinedRuns = "WHERE position IS NOT NULL ORDER BY position";
inline constexpr const char* kAllRuns = "ORDER BY number";
/// Of the table of runs, those that the end of the statement asks for, in its order.
std::vector<LedgerRun> runs_in(const LedgerDatabase& database, const char* which);

}  // namespace trainctl::study
