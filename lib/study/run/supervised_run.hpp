#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "study/run/restarts.hpp"
#include "study/run/run_start.hpp"

namespace trainctl::study {

class CoordinatorRun;

/// State that outlives a start: it decides on further starts and knows the other nodes.
struct RunContext {
  const Attempts& attempts;
  Restarts& restarts;
  CoordinatorRun* nodes = nullptr;  // the other nodes; null: this node only
};

/// Makes one start of a run, from its folder to result.json. Failures are reported in the outcome's
/// ending.
RunOutcome supervise_run(const Start& start, const fs::path& folder, const RunContext& context,
                         const MakeSinks& make_sinks, const Clock& clock);

}  // namespace trainctl::study
