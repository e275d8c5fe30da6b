#pragma once

#include "base/clock.hpp"

#include <vector>

namespace trainctl::study {

struct NoiseProbe {
  double seconds = 3;  // of the whole
  int repeats = 30;    // each of them does the same work, in the cores and in memory
};

/// Seconds that each repeat took. One of each kind comes in turn, so that a slow moment meets both;
/// the first one, which warms caches and clocks up, is not told.
std::vector<double> probe_noise(const NoiseProbe& probe, const Clock& clock);

}  // namespace trainctl::study
