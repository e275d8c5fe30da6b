#pragma once

#include "base/random.hpp"

namespace trainctl::data {

/// One draw in [low, high), or `low` where the two are equal.
inline double draw_between(CounterRng& rng, double low, double high) {
  return low + static_cast<double>(rng.uniform()) * (high - low);
}

}  // namespace trainctl::data
