#pragma once

#include "report/compare/comparison.hpp"

namespace trainctl::report {

/// Returns the page that compares groups of runs.
std::string comparison_page(const RunComparison& compared);

}  // namespace trainctl::report
