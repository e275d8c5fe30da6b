#pragma once

#include "report/compare/bench.hpp"
#include "study/run/run.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trainctl::study {

/// The measurements of a few steps with one batch size.
struct BatchTrial {
  double samples_per_s = 0;
  double memory_bytes = 0;     // peak of all ranks together; 0: unknown
  std::int64_t max_batch = 0;  // the largest size with which an epoch has enough steps
};
using BatchResult = std::variant<BatchTrial, report::TrialFailure>;
/// Trains a few steps with `batch` samples per step on each device, in new processes.
using TryBatch = std::function<BatchResult(std::int64_t batch)>;

/// The chosen batch size, and why.
struct BatchChoice {
  std::int64_t batch = 0;
  std::string why;
  std::optional<report::TrialFailure> failure;  // no size could be tried, or it was stopped
};

/// Doubles the batch size from the smallest size until it does not fit (exit code 11, or killed),
/// would need more than `memory_bytes` (0: no limit), is hardly faster twice in a row, or the data
/// set is too small. Returns the last size that was worthwhile.
BatchChoice choose_batch(double memory_bytes, const TryBatch& try_batch);

/// Returns the overrides that shorten an experiment to a trial of that batch size.
std::vector<std::string> batch_trial(std::int64_t batch);

/// Runs `request`, an experiment with the overrides of batch_trial(), in new processes.
BatchResult run_batch_trial(const RunRequest& request, const Clock& clock);

/// Returns how many bytes of host memory the trials may use; 0 if they run on a GPU, which reports
/// out-of-memory itself.
double batch_budget(const spec::Trainer& trainer);

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
