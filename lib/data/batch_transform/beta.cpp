#include "data/batch_transform/beta.hpp"

#include "base/portable_math.hpp"

#include <algorithm>
#include <cmath>

namespace trainctl::data {

// Best (1978), as in Devroye, "Random variate generation in one line of code" (1996): no rejection.
double draw_beta(CounterRng& rng, double alpha) {
  const double u = (static_cast<double>(rng.next_u32()) + 0.5) * 0x1p-32;  // never 0
  const double cos = sin_cos_degrees(360 * static_cast<double>(rng.uniform())).cos;
  const double stretch = portable_exp(std::min(-portable_log(u) / alpha, 700.0)) - 1;
  const double away = 0.5 / std::sqrt(1 + 1 / (stretch * cos * cos));
  return rng.coin(0.5) ? 0.5 + away : 0.5 - away;
}

}  // namespace trainctl::data
