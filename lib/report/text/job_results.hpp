#pragma once

#include "report/record/run_result.hpp"
#include "report/text/table.hpp"

// The output of `eval` and `predict`: the values of one checkpoint on one split.

namespace trainctl::report {

/// Returns a line with split, samples and checkpoint, the table of metrics, and then the metrics
/// that are tables if they fit the width.
std::string evaluation_text(const RunRecord& record, const Style& style);

/// Returns a document with schema "trainctl.evaluation/2". Unknown values are null, and no key is
/// missing.
Json evaluation_document(const RunRecord& record, const RunResult& ending);

// The output of `run --replay-step`: one repeated step of a diverged run.

/// The repeated step, its dump and the changed config.
struct Replay {
  events::Replayed step;
  std::string dump;                  // path of the file
  std::vector<std::string> changed;  // changed config fields: "optimizer.lr: 0.1, was 1e+38"
};

/// Returns the result and whether it equals the recorded one, then the outputs of the layers and
/// the tensors with values that are not finite.
std::string replay_text(const Replay& replay, const Style& style);

/// Returns a document with schema "trainctl.replay/2".
Json replay_document(const Replay& replay);

}  // namespace trainctl::report
