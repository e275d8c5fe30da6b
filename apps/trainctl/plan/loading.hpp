#pragma once

#include "report/plan/plan.hpp"
#include "spec/experiment/experiment.hpp"

namespace trainctl::app {

/// Whether some batches are made, to say what loader.num_workers=auto makes of their time.
enum class Probe { none, batches };

/// What loading takes, and the steps that follow from the data: a plan without a model. Throws
/// Error(data) where the data cannot be read.
report::Plan plan_loading(const spec::Experiment& experiment, Probe probe);

}  // namespace trainctl::app
