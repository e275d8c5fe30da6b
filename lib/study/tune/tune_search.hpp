#pragma once

#include "report/search/tune.hpp"
#include "study/tune/tune.hpp"
#include "study/tune/tune_requests.hpp"

#include <functional>
#include <string>

namespace trainctl::study {

/// Prints a line of progress.
using Say = std::function<void(const std::string& line)>;

/// Finds out how long runs have to be, then tries one change after the other within the budget.
/// What is known when a signal comes is in the report. Throws Error where the experiment does not
/// run as it is.
report::TuneReport search_settings(const TuneWish& asked, TuneRequests& requests, const Say& say);

}  // namespace trainctl::study
