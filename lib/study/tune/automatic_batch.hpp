#pragma once

#include "study/run/run.hpp"

#include <functional>
#include <string>
#include <vector>

namespace trainctl::study {

/// A run with `loader.batch_size: auto`, with its placement among the nodes.
struct AutoBatchRun {
  const RunRequest& request;
  /// Load the request again with further overrides: as the run itself, and as a short trial of it
  /// that neither resumes nor profiles.
  std::function<RunRequest(const std::vector<std::string>& overrides)> remake;
  std::function<RunRequest(const std::vector<std::string>& overrides)> remake_as_trial;
};

/// Returns the request with the batch size of the run that it resumes, or else with the size that
/// trials on this node find while the other nodes wait. Prints each trial. Throws the failure of a
/// trial that ends the search.
RunRequest with_measured_batch(const AutoBatchRun& run, const PrintLine& print, const Clock& clock);

}  // namespace trainctl::study
