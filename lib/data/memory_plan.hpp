#pragma once

#include "data/cache/cache.hpp"

#include <cstdint>

namespace trainctl::data {

/// The memory that loading a split takes, in bytes.
struct MemoryPlan {
  int slots = 0;
  std::uint64_t slot = 0;  // one batch
  std::uint64_t orders = 0;
  CacheChoice cache;
  int threads = 1;
  std::uint64_t scratch = 0;  // of one thread, for the largest image that was seen

  [[nodiscard]] std::uint64_t ring() const { return static_cast<std::uint64_t>(slots) * slot; }
  [[nodiscard]] std::uint64_t total() const {
    return ring() + orders + cache.bytes + static_cast<std::uint64_t>(threads) * scratch;
  }
};

/// Of a pipeline without its cache. What the cache takes is taken from the budget.
MemoryPlan memory_plan(const Pipeline& pipeline, const LoaderOptions& options, CacheBudget& budget);

/// Slots of the ring: what the options ask for, fewer where memory is short. Throws Error(resource)
/// where not even the least would fit.
int ring_slots(const LoaderOptions& options, std::uint64_t slot_bytes);

}  // namespace trainctl::data
