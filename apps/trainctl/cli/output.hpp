#pragma once

#include "cli/context.hpp"
#include "report/text/format.hpp"
#include "report/text/progress_bar.hpp"

#include <cstdio>

namespace trainctl::app {

/// What `stream` can show: width of the terminal (COLUMNS wins; 120 where it is none), colours as
/// color_for has it, Unicode where the locale is UTF-8.
report::Style style_for(const Context& context, std::FILE* stream);

/// --progress with auto resolved for stderr; none under --quiet.
report::ProgressMode progress_for(const Context& context);

/// Writes to `stream` and flushes at once, so that rows appear as epochs end.
report::Write writer_for(std::FILE* stream);

}  // namespace trainctl::app
