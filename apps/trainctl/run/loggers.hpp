#pragma once

#include "cli/context.hpp"
#include "study/run/run.hpp"

namespace trainctl::app {

/// The listeners that the experiment names, for each start of its run; `request` and `context`
/// outlive them.
study::MakeSinks loggers_of(const study::RunRequest& request, const Context& context);

}  // namespace trainctl::app
