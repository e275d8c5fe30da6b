#pragma once

#include "context.hpp"
#include "report/sink.hpp"

namespace trainctl::app {

/// Results on stdout, messages and the progress bar on stderr, as --quiet, --json, --color and --progress ask.
report::ConsoleOptions console_options(const Context& context);

}  // namespace trainctl::app
