#pragma once

#include "base/machine.hpp"
#include "data/cache/cached_dataset.hpp"
#include "data/cache/look.hpp"
#include "spec/experiment.hpp"

#include <cstdint>

namespace trainctl::data {

/// What is left of the memory for caches: the splits of an experiment share it, and what one takes
/// the next has not.
struct CacheBudget {
  spec::CacheMode mode = spec::CacheMode::none;
  std::uint64_t left = 0;

  CacheBudget() = default;
  /// The share of one of `ranks` processes on this machine, of the memory that is available.
  CacheBudget(const spec::Cache& cache, int ranks, std::uint64_t available = available_memory());
};

enum class CacheTier { none, encoded, decoded };

/// What the caches of a pipeline would take.
struct CacheNeed {
  std::uint64_t encoded = 0;  // bytes; 0: such a cache would gain nothing
  std::uint64_t decoded = 0;
};
CacheNeed cache_need(const Pipeline& pipeline, const ImageLook& look);

/// The tier that the mode asks for, and the bytes it may take; auto: the highest that fits. Throws
/// Error(resource) where a tier asked for by name does not fit.
struct CacheChoice {
  CacheTier tier = CacheTier::none;
  std::uint64_t bytes = 0;
};
CacheChoice choose_cache(const CacheNeed& need, const CacheBudget& budget);

/// For epochs files are read at once, in their order, because a disk gives them much faster so than
/// shuffled; for a look at some samples they are kept as they are read.
enum class CacheFill { at_once, on_use };

/// The pipeline with its cache: the same batches. Pixels are kept as the first epoch makes them,
/// which costs it nothing.
Pipeline with_cache(Pipeline pipeline, CacheBudget& budget, const Progress& progress = {},
                    CacheFill fill = CacheFill::at_once);

}  // namespace trainctl::data
