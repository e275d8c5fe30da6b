#pragma once

#include "cli/context.hpp"
#include "study/nodes/node_plan.hpp"

namespace trainctl::app {

/// The exchange of a task with torchrun's store, by child processes that load the engine. To be
/// called while this process has one thread.
study::Exchange engine_exchange(const launch::TaskPlace& task);

/// Says in one line under what the run takes place; a task that is not the head is quiet from here
/// on, but for errors.
void speak_for(const study::NodePlan& plan, Context& context);

}  // namespace trainctl::app
