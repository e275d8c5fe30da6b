#pragma once

#include "cli/experiment.hpp"

#include <string>

namespace trainctl::app {

struct Context;

/// `run CONFIG --replay-step PATH`: one process repeats the step of a dump with the experiment and
/// prints what came out. PATH is a part of a dump, its folder, or a run folder, which stands for
/// its newest dump. Returns 0 wherever the step could be repeated, whatever its values. Throws
/// Error(config) where there is no dump, Error(checkpoint) where it is damaged.
int replay_step(const ConfigArguments& config, const std::string& path, Context& context);

}  // namespace trainctl::app
