#pragma once

#include "config/diagnostics.hpp"
#include "report/html/run_page.hpp"
#include "report/record/run_files.hpp"
#include "study/run/run.hpp"

#include <cstddef>
#include <string>

namespace trainctl::study {

/// The samples that a page is to show.
struct WorstRequest {
  std::size_t count = 0;    // 0: none
  std::string predictions;  // empty: predictions.csv of the run folder
  std::string split = "val";
};

/// Where the problems of the run's experiment go: the data may have moved since the run.
struct LoadProblems {
  config::Diagnostics& diagnostics;  // emptied where the experiment cannot be loaded
  const PrintLine& warn;
};

/// Returns the names of the classes where the page shows classes, and the worst samples of a file
/// of predictions with their pictures, as the model sees them before `normalize`. Where the data is
/// not there any more they come without, and a warning says so. Throws Error(config) where there
/// are no predictions, or they are of another split.
report::RunPageExtras run_page_extras(const report::RunFiles& run, const WorstRequest& request,
                                      const LoadProblems& problems);

}  // namespace trainctl::study
