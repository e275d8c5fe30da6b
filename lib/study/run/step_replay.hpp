#pragma once

#include "report/text/task_results.hpp"
#include "study/run/run.hpp"

#include <string>

// `run --replay-step`: the step after which a run diverged is repeated from its dump.

namespace trainctl::study {

/// The experiment that repeats the step, and how its config differs from that of the dump.
struct ReplayPlan {
  spec::Loaded loaded;
  report::Replay replay;  // without the step
};

/// Finds the dump and loads the experiment; without a config file, that of the dump. `path` is a
/// part of a dump, its folder, or a run folder, which stands for its newest dump. Throws
/// Error(config) where there is no dump, Error(checkpoint) where it is damaged.
ReplayPlan plan_replay(const Invocation& invocation, const std::string& path,
                       config::Diagnostics& diagnostics);

/// The replay as a run of one process, which trains nothing and reads no data.
RunRequest replay_request(const Invocation& invocation, ReplayPlan plan);

}  // namespace trainctl::study
