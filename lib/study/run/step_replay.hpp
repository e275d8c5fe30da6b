#pragma once

#include "report/text/job_results.hpp"
#include "study/run/run.hpp"

#include <string>

// `run --replay-step` repeats the step at which a run diverged from its dump.

namespace trainctl::study {

/// The experiment that repeats the step, and how its config differs from the dump's config.
struct ReplayPlan {
  spec::Loaded loaded;
  report::Replay replay;  // without the result of the step
};

/// Finds the dump and loads the experiment; without a config file, the dump's config is used.
/// `path` is a file of a dump, its folder, or a run folder, whose newest dump is used. Throws
/// Error(config) when there is no dump, Error(checkpoint) when the dump is damaged.
ReplayPlan plan_replay(const Invocation& invocation, const std::string& path,
                       config::Diagnostics& diagnostics);

/// Returns the replay as a run of one process that neither trains nor reads data.
RunRequest replay_request(const Invocation& invocation, ReplayPlan plan);

}  // namespace trainctl::study
