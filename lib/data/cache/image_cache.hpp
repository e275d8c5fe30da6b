#pragma once

#include "base/machine/machine.hpp"
#include "data/cache/cached_dataset.hpp"
#include "data/cache/device_images.hpp"
#include "data/core/image_probe.hpp"
#include "spec/experiment/experiment.hpp"

#include <cstdint>
#include <string>

namespace trainctl::data {

/// What is left of the memory for caches: the splits of an experiment share it, and what one takes
/// the next has not.
struct CacheBudget {
  spec::CacheMode mode = spec::CacheMode::none;
  std::uint64_t left = 0;
  const ImageDevice* device = nullptr;  // that may keep images; null: none
  bool planned_device = false;          // one will be there
  int threads = 1;                      // that fill the memory of the device

  CacheBudget() = default;
  /// The share of one of `ranks` processes on this machine, of the memory that is available.
  /// Without a device: the mode `device` is the mode `auto`, which gives the same batches.
  CacheBudget(const spec::Cache& cache, int ranks, std::uint64_t available = available_memory());
  /// The same of the plan of a run on a GPU whose memory is not known.
  static CacheBudget of_plan(const spec::Cache& cache, int ranks, std::uint64_t available);
  /// The same of a run, which trains on `device`; null: on a CPU, where that mode is an error.
  static CacheBudget of_run(const spec::Cache& cache, int ranks, const ImageDevice* device);
};

enum class CacheTier { none, encoded, decoded, device };

/// What the caches of a pipeline would take.
struct CacheNeed {
  std::uint64_t encoded = 0;  // bytes; 0: such a cache would gain nothing
  std::uint64_t decoded = 0;
  std::uint64_t device = 0;  // in its memory
  std::string no_device;     // why a device cannot keep the images; empty: it can
};
CacheNeed cache_need(const Pipeline& pipeline, const ImageLook& look);

/// The tier that the mode asks for, and the bytes it may take; auto: the highest that fits, on a
/// device in half of what it has free. Throws Error(resource) where a tier asked for by name does
/// not fit, Error(config) where a device cannot keep the images.
struct CacheChoice {
  CacheTier tier = CacheTier::none;
  std::uint64_t bytes = 0;

  /// What is taken from the budget.
  [[nodiscard]] std::uint64_t host_bytes() const { return tier == CacheTier::device ? 0 : bytes; }
  /// What is taken of a device's memory.
  [[nodiscard]] std::uint64_t device_bytes() const { return bytes - host_bytes(); }
};
CacheChoice choose_cache(const CacheNeed& need, const CacheBudget& budget);

/// For epochs files are read at once, in their order, because a disk gives them much faster so than
/// shuffled; for a look at some samples they are kept as they are read.
enum class CacheFill { at_once, on_use };

/// The pipeline with its cache: the same batches. What a device keeps is read at once, in order;
/// pixels on the host are kept as the first epoch makes them, which costs it nothing.
Pipeline with_cache(Pipeline pipeline, CacheBudget& budget, const Progress& progress = {},
                    CacheFill fill = CacheFill::at_once);

}  // namespace trainctl::data
