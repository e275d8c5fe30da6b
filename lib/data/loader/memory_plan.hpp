#pragma once

#include "data/cache/image_cache.hpp"

#include <cstdint>
#include <string>

namespace trainctl::data {

/// The memory that loading a split takes, in bytes.
struct MemoryPlan {
  int slots = 0;
  int slots_wanted = 0;    // more than `slots` where memory is short
  std::uint64_t slot = 0;  // one batch
  std::uint64_t orders = 0;
  CacheNeed cache_need;
  CacheChoice cache;
  int threads = 1;
  std::uint64_t scratch = 0;    // of one thread, for the largest image that was seen
  std::uint64_t ahead = 0;      // images read before their turn
  std::uint64_t transfers = 0;  // of a remote data set
  Footprint dataset;
  std::string refusal;  // why a loader of this split would not start: Error(resource)

  [[nodiscard]] std::uint64_t ring() const { return static_cast<std::uint64_t>(slots) * slot; }
  [[nodiscard]] std::uint64_t total() const {
    return dataset.memory + ring() + orders + cache.host_bytes() +
           static_cast<std::uint64_t>(threads) * scratch + ahead + transfers;
  }
};

/// Of a pipeline without its cache. What the cache takes is taken from the budget. What does not
/// fit is told by `refusal`.
MemoryPlan memory_plan(const Pipeline& pipeline, const LoaderOptions& options, CacheBudget& budget);

/// Bytes that the ring of these options may take.
std::uint64_t ring_budget(const LoaderOptions& options);

/// Slots of the ring that the options ask for.
int wanted_slots(const LoaderOptions& options);
/// The same, fewer where memory is short. Throws Error(resource) where not even the least would
/// fit.
int ring_slots(const LoaderOptions& options, std::uint64_t slot_bytes);

/// Bytes for images that are read ahead, out of what the ring leaves of the budget; 0: none are.
std::uint64_t ahead_memory(const Dataset& dataset, const LoaderOptions& options,
                           std::uint64_t ring_bytes);

}  // namespace trainctl::data
