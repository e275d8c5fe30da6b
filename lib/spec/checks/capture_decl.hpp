#pragma once

#include "config/diagnostics.hpp"
#include "spec/experiment/placement.hpp"
#include "spec/load.hpp"

#include <optional>
#include <string>

namespace trainctl::spec {

/// Why the steps of a run cannot be recorded as CUDA graphs, as far as its file tells: half a
/// sentence. Nothing: they can. `activation_checkpointing: auto` counts once it is settled.
std::optional<std::string> capture_obstacle(const Experiment& experiment,
                                            const Placement& placement);

/// Of a file that is to be trained with: `cuda_graphs: true` where there is an obstacle on this
/// machine is a problem.
void check_capture(const Loaded& loaded, config::Diagnostics& diagnostics);

}  // namespace trainctl::spec
