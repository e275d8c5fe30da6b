#pragma once

#include "report/record/run_result.hpp"
#include "report/text/format.hpp"

namespace trainctl::report {

/// Returns the lines about a run's initial weights: the counts first, then a line for everything
/// unexpected, with truncated names.
std::vector<std::string> weights_lines(const events::WeightsSet& weights);

/// Returns the complete data for manifest.json.
Json weights_document(const events::WeightsSet& weights);

/// Returns the operator with the most self time, from the text of profile/operators.csv:
/// "aten::addmm takes 31 % of the operators' time". On a GPU the time of its kernels counts. Empty
/// if the text has no valid rows.
std::string top_operator(std::string_view operators_csv);

/// Returns the block below the epoch table: totals, best, last metrics, warmup separate from steady
/// epochs, time budget, the bottleneck with its headroom, the run folder and the next command, one
/// fact per line.
std::string summary_text(const RunRecord& record, const RunResult& ending, const Style& style);

/// Returns one screen about a failed run: which rank, where, why, at which step, what was saved,
/// the end of its log and what to do next.
std::string failure_text(const RunRecord& record, const RunResult& ending, const Style& style);

}  // namespace trainctl::report
