#pragma once

#include "base/clock.hpp"
#include "report/bench.hpp"
#include "study/run.hpp"

namespace trainctl::study {

/// One run through the door, without listeners. Throws Error with the run's exit code as its kind where it did not end
/// well; the message has the cause and the run folder.
report::Trial run_trial(const RunRequest& request, const Clock& clock);

}  // namespace trainctl::study
