#pragma once

#include "base/clock.hpp"
#include "data/loader/loader.hpp"

#include <functional>

namespace trainctl::data {

/// How long to measure, after an epoch of warm-up.
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

/// Loads and reads the labels, and calls the consumer, if any. Batches that the workers had ready
/// when the measurement began are not counted.
LoaderFigures measure_loader(const Pipeline& pipeline, const LoaderOptions& options,
                             const MeasureLength& length, const Clock& clock,
                             const Consumer& consumer = {});

/// What this machine allows a loader of these samples, measured in place on one thread.
struct Limit {
  /// "gather": rows copied from memory in the loader's order; "decode": what is needed of each file
  /// is read and decoded; "transforms": they alone, on images that are in the cache.
  std::string name;
  double samples_per_s = 0;
  bool per_thread = true;  // false where one thread may already fill the memory bus
};

/// Measures for about `seconds` on one thread, after an epoch that fills the cache, if any. Images
/// that lie raw in memory are gathered, unless they are resized.
Limit measure_limit(const Pipeline& pipeline, const LoaderOptions& options, double seconds,
                    const Clock& clock);

/// Digests of whole epochs: the same for any number of workers, prefetch depth and ranks.
struct EpochDigests {
  std::uint64_t digest = 0;  // of all epochs in their order
  std::vector<std::uint64_t> epochs;
  std::vector<SkippedSample> skipped;  // damaged samples that others took the place of, each once
};

/// Loads `epochs` epochs on each of options.shard.world_size ranks and adds their digests up.
EpochDigests digest_epochs(const Pipeline& pipeline, LoaderOptions options, std::int64_t epochs);

}  // namespace trainctl::data
