#pragma once

#include "config/diagnostics.hpp"
#include "report/html/run_page.hpp"
#include "report/record/run_files.hpp"
#include "study/run/run.hpp"

#include <cstddef>
#include <string>

namespace trainctl::study {

/// The samples that a report page shows.
struct WorstRequest {
  std::size_t count = 0;    // 0: none
  std::string predictions;  // empty: predictions.csv of the run folder
  std::string split = "val";
};

/// Where problems with the run's experiment are reported; the data may have moved since the run.
struct LoadProblems {
  config::Diagnostics& diagnostics;  // cleared if the experiment cannot be loaded
  const PrintLine& warn;
};

/// Returns the class names if the page shows classes, and the worst samples of a predictions file
/// with their images as the model sees them before `normalize`. If the data is no longer available,
/// the samples have no images and a warning is printed. Throws Error(config) when there are no
/// predictions, or when they belong to another split.
report::RunPageExtras run_page_extras(const report::RunFiles& run, const WorstRequest& request,
                                      const LoadProblems& problems);

}  // namespace trainctl::study
