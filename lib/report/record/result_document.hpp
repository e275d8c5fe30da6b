#pragma once

#include "base/json.hpp"
#include "report/record/run_record.hpp"
#include "report/record/run_result.hpp"

namespace trainctl::report {

/// result.json, schema "trainctl.result/1". Complete for a run that never came to train, too: what
/// is not known is null or empty, no key is missing.
Json result_document(const RunRecord& record, const Ending& ending);

/// The rank that failed first, as such documents tell it; null where none did.
Json failure_document(const std::optional<FirstFailure>& failure);

}  // namespace trainctl::report
