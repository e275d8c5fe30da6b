#pragma once

#include "base/json.hpp"
#include "events/records.hpp"
#include "report/record/run_record.hpp"
#include "report/record/run_result.hpp"
#include "report/text/table.hpp"

// What `eval` and `predict` tell: the values of one checkpoint on one split.

namespace trainctl::report {

/// The table below a line that names split, samples and checkpoint; then the metrics that are
/// tables, where they are small enough for the width.
std::string evaluation_text(const RunRecord& record, const Style& style);

/// Schema "trainctl.evaluation/1". What is not known is null, no key is missing.
Json evaluation_document(const RunRecord& record, const Ending& ending);

// What `run --replay-step` tells: one step of a run that has diverged, repeated.

struct Replay {
  events::Replayed step;
  std::string dump;                  // the file
  std::vector<std::string> changed;  // fields of the config: "optimizer.lr: 0.1, was 1e+38"
};

/// What came out and whether it is what was recorded, then the outputs of the layers and the
/// tensors that are not finite.
std::string replay_text(const Replay& replay, const Style& style);

/// Schema "trainctl.replay/1".
Json replay_document(const Replay& replay);

}  // namespace trainctl::report
