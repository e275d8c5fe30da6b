#pragma once

#include "report/html/run_page.hpp"
#include "report/record/run_files.hpp"

#include <cstddef>
#include <string>

namespace trainctl::app {

struct Context;

/// The samples that a page is to show.
struct WorstRequest {
  std::size_t count = 0;    // 0: none
  std::string predictions;  // empty: predictions.csv of the run folder
  std::string split = "val";
};

/// The names of the classes where the page shows classes, and the worst samples of a file of
/// predictions with their pictures, as the model sees them before `normalize`. Where the data is
/// not there any more they come without, and a warning says so. Throws Error(config) where there
/// are no predictions, or they are of another split.
report::RunPageExtras extras_of(const report::RunFiles& run, const WorstRequest& request,
                                Context& context);

}  // namespace trainctl::app
