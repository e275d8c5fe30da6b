#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "study/run/restarts.hpp"
#include "study/run/run_start.hpp"

namespace trainctl::study {

class HeadRun;

/// What outlives a start: what decides whether there is another, and the nodes that take part.
struct Course {
  const Attempts& attempts;
  Restarts& restarts;
  HeadRun* nodes = nullptr;  // the others of several
};

/// Makes one start of a run, from its folder to result.json. What goes wrong is reported by the
/// ending of the outcome.
RunOutcome supervise_run(const Start& start, const fs::path& folder, const Course& course,
                         const MakeSinks& make_sinks, const Clock& clock);

}  // namespace trainctl::study
