#pragma once

#include "data/loader.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace trainctl::data {

/// What the samples of a split are, before any transform.
struct SplitStats {
  std::int64_t samples = 0;
  /// Of uint8 / 255 over all pixels, one value a channel, as `normalize` takes them; empty where
  /// there are no images.
  std::vector<double> mean;
  std::vector<double> std;
  std::vector<std::int64_t> per_class;  // samples; empty where labels are not classes
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>
      sizes;  // (height, width) -> samples
};

/// Told how many samples are done, now and then.
using StatsProgress = std::function<void(std::int64_t done)>;

/// Reads every sample once, on `workers` threads. Sums are integers: the result is the same for any
/// number of them.
SplitStats split_stats(const std::shared_ptr<const Dataset>& dataset, int workers,
                       const StatsProgress& progress);

}  // namespace trainctl::data
