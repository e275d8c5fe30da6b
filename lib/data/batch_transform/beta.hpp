#pragma once

#include "base/random.hpp"

namespace trainctl::data {

/// One draw of Beta(alpha, alpha): two uniform numbers and a coin, whatever comes out, and the same
/// bits everywhere.
double draw_beta(CounterRng& rng, double alpha);

}  // namespace trainctl::data
