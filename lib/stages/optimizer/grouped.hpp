#pragma once

#include "stage/registry.hpp"

namespace trainctl::stages {

/// Builds the optimizer of an experiment for the parameters of the context: the stage itself, and
/// next to it the optimizers that `groups` name for their parameters. `run` is what the schedulers
/// of groups are built for; null: no scheduler changes their rates. Throws Error(config) for a
/// pattern that matches no parameter, or if the groups leave no parameter to the stage itself.
std::unique_ptr<stage::Optimizer> build_optimizer(const stage::Catalog& catalog,
                                                  const config::Stage& stage,
                                                  const stage::OptimizerContext& context,
                                                  const stage::SchedulerContext* run = nullptr);

}  // namespace trainctl::stages
