#pragma once

#include "study/run/run.hpp"

#include <functional>
#include <string>
#include <vector>

namespace trainctl::study {

/// A run with `loader.batch_size: auto`, in its place among the nodes.
struct UnsizedRun {
  const RunRequest& request;
  /// Loads the request again with further overrides: as the run, and as a short trial of it, which
  /// resumes and profiles nothing.
  std::function<RunRequest(const std::vector<std::string>& overrides)> remake;
  std::function<RunRequest(const std::vector<std::string>& overrides)> remake_as_trial;
};

/// Returns the request with the batch size of the run that it resumes, else with the one that
/// trials on this node find; other nodes wait meanwhile. Prints what is tried. Throws the failure
/// of a trial that ends the search.
RunRequest with_found_batch(const UnsizedRun& run, const PrintLine& print, const Clock& clock);

}  // namespace trainctl::study
