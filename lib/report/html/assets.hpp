#pragma once

#include "report/html/html.hpp"

namespace trainctl::report {

/// The look of every page: light and dark, narrow and wide, on paper.
Literal page_style();
/// Values under the pointer, and the switch between light and dark. Pages say all without it.
Literal page_script();

}  // namespace trainctl::report
