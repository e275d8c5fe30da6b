#pragma once

#include "cli/context.hpp"
#include "report/sinks/sink.hpp"

#include <string>
#include <vector>

namespace trainctl::app {

/// Results on stdout, messages and the progress bar on stderr, as --quiet, --json, --color and
/// --progress ask. `metrics` are the columns of the table.
report::ConsoleOptions console_options(const Context& context, std::vector<std::string> metrics);

/// The logger says as much as --quiet and -v ask.
void set_up_log(const Context& context);

}  // namespace trainctl::app
