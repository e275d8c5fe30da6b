#pragma once

#include "sweep/plan.hpp"

namespace CLI {
class App;
}

namespace trainctl::app {

/// The flags of `trainctl sweep` beside its config arguments, and its footer.
void add_sweep_flags(CLI::App& verb, SweepFlags& flags);

}  // namespace trainctl::app
