#pragma once

#include "base/clock.hpp"
#include "data/loader/loader.hpp"

namespace trainctl::data {

/// The length of a measurement, after one epoch of warm-up.
struct MeasureLength {
  std::optional<std::int64_t> epochs;  // whole epochs; otherwise `seconds` applies
  double seconds = 1;                  // rounded up to whole batches
};

/// The performance of a loader in this process.
struct LoaderFigures {
  double samples_per_s = 0;
  double cpu_s_per_1k = 0;  // CPU seconds of the process per 1,000 samples
  double p50_ms = 0;        // time between batches
  double p99_ms = 0;
  std::uint64_t digest = 0;  // of epoch 0, the warm-up
  std::vector<SkippedSample> skipped;
};

/// Called with each batch, in the caller's thread.
using Consumer = std::function<void(const Batch&)>;

/// Loads batches, reads the labels, and calls the consumer if there is one. Batches that were ready
/// when the measurement began do not count.
LoaderFigures measure_loader(const Pipeline& pipeline, const LoaderOptions& options,
                             const MeasureLength& length, const Clock& clock,
                             const Consumer& consumer = {});

/// An upper bound of the loading rate on this machine, measured on one thread.
struct ThroughputLimit {
  /// "gather": copying rows from memory in the loader's order; "decode": reading and decoding the
  /// required part of each file; "transforms": only the transforms, on images in cache.
  std::string name;
  double samples_per_s = 0;
  bool per_thread = true;  // false if one thread may already saturate the memory bandwidth
};

/// Measures for about `seconds` on one thread, after an epoch that fills the cache, if any. Raw
/// images in memory are gathered, unless they are resized.
ThroughputLimit measure_throughput_limit(const Pipeline& pipeline, const LoaderOptions& options,
                                         double seconds, const Clock& clock);

/// Digests of whole epochs: the same for any number of workers, prefetch depth and ranks.
struct EpochDigests {
  std::uint64_t digest = 0;  // of all epochs in order
  std::vector<std::uint64_t> epochs;
  std::vector<SkippedSample> skipped;  // damaged samples that were replaced, each once
};

/// Loads `epochs` epochs on each of options.shard.world_size ranks and adds up their digests.
EpochDigests digest_epochs(const Pipeline& pipeline, LoaderOptions options, std::int64_t epochs);

}  // namespace trainctl::data
