#pragma once

#include "report/record/run_record.hpp"
#include "report/record/run_result.hpp"
#include "report/text/format.hpp"

#include <string>

namespace trainctl::report {

/// The block below the epoch table: totals, best, last metrics, warm-up apart from steady epochs,
/// time budget, the bottleneck with its headroom, the run folder and the next command. One fact a
/// line, each line complete by itself.
std::string summary_text(const RunRecord& record, const Ending& ending, const Style& style);

/// One screen about a run that failed: which rank, where, why, at which step, what was saved, the
/// end of its log and what to do next.
std::string failure_text(const RunRecord& record, const Ending& ending, const Style& style);

}  // namespace trainctl::report
