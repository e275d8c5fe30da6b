#pragma once

#include "config/diagnostics.hpp"
#include "spec/load.hpp"

namespace trainctl::spec {

/// What can be told of the loggers on the machine that listens: a command that is not there, a
/// folder that is missing, a logger that would write its files twice. Problems go into
/// `diagnostics`. Not for workers, which may run elsewhere.
void check_loggers(const Loaded& loaded, config::Diagnostics& diagnostics);

}  // namespace trainctl::spec
