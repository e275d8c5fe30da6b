#pragma once

#include "report/compare/comparison.hpp"
#include "report/html/sweep_page.hpp"
#include "report/record/run_files.hpp"

#include <string>

// Pages about more than one run.

namespace trainctl::report {

std::string comparison_page(const Compared& compared);

/// Of a document "trainctl.bench/1": total times and speed-ups with their intervals, losses, rows.
/// Throws Error(config) where it is none.
std::string bench_page(const Json& bench, const std::string& title);

}  // namespace trainctl::report
