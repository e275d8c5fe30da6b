#pragma once

#include "base/json.hpp"

#include <string>

namespace trainctl::report {

/// Returns the page of a document "trainctl.bench/2": total times and speedups with their
/// intervals, losses, rows. Throws Error(config) for another document.
std::string bench_page(const Json& bench, const std::string& title);

}  // namespace trainctl::report
