#pragma once

#include "study/nodes/node_run.hpp"
#include "study/run/restarts.hpp"
#include "study/run/run_ending.hpp"
#include "study/run/run_start.hpp"

namespace trainctl::study {

/// State that outlives a start: it decides on further starts and knows the other nodes.
struct RunContext {
  const fs::path& folder;  // of the run
  const Attempts& attempts;
  Restarts& restarts;
  CoordinatorRun* nodes = nullptr;  // the other nodes; null: this node only
};

/// Makes one start of a run: writes the files of its folder, starts and supervises the workers,
/// passes their events to the sinks, and writes result.json. Failures are reported in the outcome's
/// ending.
RunOutcome run_once(const Start& start, const RunContext& context, const MakeSinks& make_sinks,
                    const Clock& clock);

}  // namespace trainctl::study
