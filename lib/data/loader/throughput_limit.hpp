#pragma once

#include "base/clock.hpp"
#include "data/loader/loader.hpp"

#include <string>

namespace trainctl::data {

/// What this machine allows a loader of these samples, measured in place on one thread.
struct Limit {
  /// "gather": rows copied from memory in the loader's order; "decode": what is needed of each file
  /// is read and decoded; "transforms": they alone, on images that are in the cache.
  std::string name;
  double samples_per_s = 0;
  bool per_thread = true;  // false where one thread may already fill the memory bus
};

/// Measures for about `seconds` on one thread, behind an epoch that fills the cache, where the
/// pipeline has one. Gathering is the limit of what lies raw in memory,
/// unless it is resized on the way.
Limit measure_limit(const Pipeline& pipeline, const LoaderOptions& options, double seconds,
                    const Clock& clock);

}  // namespace trainctl::data
