#pragma once

#include "context.hpp"
#include "study/placement.hpp"

namespace trainctl::app {

/// The exchange of a task with torchrun's store, by a child process that loads the engine.
study::Exchange engine_exchange(const launch::TaskPlace& task);

/// Where this process stands among those that a launcher or a person has started: `wish`, the
/// environment's token added, by this process's environment. Says so in one line, and makes every
/// node but the head quiet. To be called while stop signals end the process, since it may wait for
/// the head. Throws as plan_node().
study::NodePlan place_node(study::PlacementWish wish, Context& context);

}  // namespace trainctl::app
