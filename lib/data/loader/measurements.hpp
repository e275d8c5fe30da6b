#pragma once

#include "base/clock.hpp"
#include "data/loader/loader.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace trainctl::data {

/// How long to measure, behind an epoch of warm-up.
struct MeasureLength {
  std::optional<std::int64_t> epochs;  // whole epochs, or else
  double seconds = 1;                  // in whole batches
};

/// What a loader gave in this process.
struct LoaderFigures {
  double samples_per_s = 0;
  double cpu_s_per_1k = 0;  // of the whole process, for 1,000 samples
  double p50_ms = 0;        // from batch to batch
  double p99_ms = 0;
  std::uint64_t digest = 0;  // of epoch 0, the warm-up
  std::vector<SkippedSample> skipped;
};

/// What is done with each batch, in the caller's thread.
using Consumer = std::function<void(const Batch&)>;

/// Loads with a consumer that reads nothing but labels, unless one is given. What the workers had
/// ready when the measurement began is not counted.
LoaderFigures measure_loader(const Pipeline& pipeline, const LoaderOptions& options,
                             const MeasureLength& length, const Clock& clock,
                             const Consumer& consumer = {});

}  // namespace trainctl::data
