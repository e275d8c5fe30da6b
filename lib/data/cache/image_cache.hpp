#pragma once

#include "base/machine/machine.hpp"
#include "data/cache/cached_dataset.hpp"
#include "data/core/image_probe.hpp"
#include "spec/experiment/experiment.hpp"

namespace trainctl::data {

/// The memory that is left for caches. The splits of an experiment share it: every cache reduces
/// what the next split may use.
struct CacheBudget {
  spec::CacheMode mode = spec::CacheMode::none;
  std::uint64_t left = 0;
  const ImageDevice* device = nullptr;  // device that may hold images, or null
  bool planned_device = false;          // the run will have a device
  int threads = 1;                      // threads that make images for the device

  CacheBudget() = default;
  /// Takes the share that one of `ranks` processes on this machine gets of the `available` bytes.
  /// Without a device, the mode `device` acts like `auto`, which gives the same batches.
  CacheBudget(const spec::Cache& cache, int ranks, std::uint64_t available = available_memory());
  /// Returns the budget for the plan of a run on a GPU whose memory size is not known.
  static CacheBudget of_plan(const spec::Cache& cache, int ranks, std::uint64_t available);
  /// Returns the budget for a run that trains on `device`. Null means a CPU, where the mode
  /// `device` is an error.
  static CacheBudget of_run(const spec::Cache& cache, int ranks, const ImageDevice* device);
};

/// Where the images of a pipeline are cached: on the host as stored or decoded, or on a device.
enum class CacheTier { none, encoded, decoded, device };

/// Bytes that each kind of cache of a pipeline needs.
struct CacheNeed {
  std::uint64_t encoded = 0;  // 0 when an encoded cache would gain nothing
  std::uint64_t decoded = 0;
  std::uint64_t device = 0;  // device memory
  std::string no_device;     // why a device cannot hold the images; empty when it can
};
/// Returns the bytes that each cache of the pipeline needs, from the probe `look`.
CacheNeed cache_need(const Pipeline& pipeline, const ImageSizes& sizes);

/// The selected tier and the bytes it may use. Mode auto selects the highest tier that fits; on a
/// device it uses up to half of the free memory. Throws Error(resource) when an explicitly
/// requested tier does not fit, Error(config) when a device cannot hold the images.
struct CacheChoice {
  CacheTier tier = CacheTier::none;
  std::uint64_t bytes = 0;

  /// Bytes to subtract from the host budget.
  [[nodiscard]] std::uint64_t host_bytes() const { return tier == CacheTier::device ? 0 : bytes; }
  /// Returns the bytes of device memory.
  [[nodiscard]] std::uint64_t device_bytes() const { return bytes - host_bytes(); }
};
/// Selects the tier for that need within the budget; see CacheChoice.
CacheChoice choose_cache(const CacheNeed& need, const CacheBudget& budget);

/// at_once reads all files up front in their order, because a disk is much faster that way than
/// with shuffled reads. on_use caches files when they are first read, for commands that look at
/// only some samples.
enum class CacheFill { at_once, on_use };

/// Returns the pipeline with its cache, which yields the same batches. Images for a device are read
/// up front, in order. Decoded images on the host are cached during the first epoch, at no extra
/// cost.
Pipeline with_cache(Pipeline pipeline, CacheBudget& budget, const Progress& progress = {},
                    CacheFill fill = CacheFill::at_once);

}  // namespace trainctl::data
