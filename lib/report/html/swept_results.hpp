#pragma once

#include "base/json.hpp"
#include "report/html/sweep_page.hpp"

#include <string>
#include <vector>

// How the runs of a sweep's document differ, and how they compare.

namespace trainctl::report {

std::string run_id_of(const Json& run);
/// Empty where the run was not given the key.
std::string override_of(const Json& run, const std::string& key);
/// Keys that the runs were given, in their order.
std::vector<std::string> keys_of(const Json& runs);

/// Of the best epoch, by which the sweep itself ranks; else of the last. NaN where it told none.
double result_of(const Json& run, const Objective& objective);
/// 0 of the best, 1 of the worst, by their order: one that diverged does not hide the others.
std::vector<double> shades_of(const Json& runs, const Objective& objective);

}  // namespace trainctl::report
