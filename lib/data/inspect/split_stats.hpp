#pragma once

#include "data/core/dataset.hpp"
#include "data/loader/skipped_samples.hpp"

#include <functional>

namespace trainctl::data {

/// Statistics of the samples of a split, before any transform.
struct SplitStats {
  std::int64_t samples = 0;  // readable samples
  /// Per channel, over all pixels of uint8 / 255, as `normalize` expects them. Empty without
  /// images.
  std::vector<double> mean;
  std::vector<double> std;
  std::vector<std::int64_t> per_class;  // samples per class; empty when labels are not classes
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>
      sizes;                           // (height, width) -> samples
  std::vector<ColumnStats> features;   // for samples that are rows of numbers
  std::vector<ColumnStats> targets;    // for regression targets
  std::vector<SkippedSample> skipped;  // with OnError::skip; not included in the other statistics
};

/// The options of split_stats().
struct StatsOptions {
  int workers = 1;
  OnError on_error = OnError::fail;
  std::optional<std::int64_t> max_skipped = {};  // default: default_max_skipped()
};

/// Called periodically with the number of finished samples.
using StatsProgress = std::function<void(std::int64_t done)>;

/// Reads every sample once. The result does not depend on the number of workers. Throws Error(data)
/// that names the unreadable sample.
SplitStats split_stats(const Dataset& dataset, const StatsOptions& options,
                       const StatsProgress& progress);

}  // namespace trainctl::data
