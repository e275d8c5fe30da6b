#pragma once

#include "base/json.hpp"
#include "events/records.hpp"
#include "report/record/run_record.hpp"
#include "report/record/run_result.hpp"
#include "report/text/format.hpp"

namespace trainctl::report {

/// What a run starts from, for people: the counts first, then a line for whatever a reader would
/// not expect, names cut short.
std::vector<std::string> weights_lines(const events::WeightsSet& weights);

/// The whole of it, for manifest.json.
Json weights_document(const events::WeightsSet& weights);

/// The operator that took most time of its own, from the text of profile/operators.csv:
/// "aten::addmm takes 31 % of the operators' time". On a GPU its kernels count. Empty where the
/// text has no rows that it can read.
std::string top_operator(std::string_view operators_csv);

/// The block below the epoch table: totals, best, last metrics, warm-up apart from steady epochs,
/// time budget, the bottleneck with its headroom, the run folder and the next command. One fact a
/// line, each line complete by itself.
std::string summary_text(const RunRecord& record, const Ending& ending, const Style& style);

/// One screen about a run that failed: which rank, where, why, at which step, what was saved, the
/// end of its log and what to do next.
std::string failure_text(const RunRecord& record, const Ending& ending, const Style& style);

}  // namespace trainctl::report
