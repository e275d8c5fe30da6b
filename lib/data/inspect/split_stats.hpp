#pragma once

#include "data/core/dataset.hpp"
#include "data/loader/skipped_samples.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace trainctl::data {

/// What the samples of a split are, before any transform.
struct SplitStats {
  std::int64_t samples = 0;  // that could be read
  /// Of uint8 / 255 over all pixels, one value a channel, as `normalize` takes them; empty where
  /// there are no images.
  std::vector<double> mean;
  std::vector<double> std;
  std::vector<std::int64_t> per_class;  // samples; empty where labels are not classes
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>
      sizes;                           // (height, width) -> samples
  std::vector<ColumnStats> features;   // of samples that are rows of numbers
  std::vector<ColumnStats> targets;    // where labels are numbers to learn
  std::vector<SkippedSample> skipped;  // with OnError::skip: they are in no other figure
};

struct StatsOptions {
  int workers = 1;
  OnError on_error = OnError::fail;
  std::optional<std::int64_t> max_skipped = {};  // default: default_max_skipped()
};

/// Told how many samples are done, now and then.
using StatsProgress = std::function<void(std::int64_t done)>;

/// Reads every sample once. The result is the same for any number of workers. Throws Error(data)
/// naming the sample that cannot be read.
SplitStats split_stats(const Dataset& dataset, const StatsOptions& options,
                       const StatsProgress& progress);

}  // namespace trainctl::data
