#pragma once

#include "data/loader/loader.hpp"

#include <cstdint>
#include <vector>

namespace trainctl::data {

/// Digests of whole epochs: the same for any number of workers, any prefetch depth and any split
/// over ranks.
struct EpochDigests {
  std::uint64_t digest = 0;  // of all epochs in their order
  std::vector<std::uint64_t> epochs;
  std::vector<SkippedSample> skipped;  // damaged samples that others took the place of, each once
};

/// Loads `epochs` epochs on each of options.shard.world_size ranks, one after the other, and adds
/// their digests up.
EpochDigests digest_epochs(const Pipeline& pipeline, LoaderOptions options, std::int64_t epochs);

}  // namespace trainctl::data
