#pragma once

#include "base/json.hpp"
#include "report/html/html.hpp"
#include "report/html/sweep_page.hpp"

namespace trainctl::report {

/// Settings and results as parallel coordinates: an axis a key, a line a run.
Html sweep_parallel(const Json& runs, const Objective& objective);

}  // namespace trainctl::report
