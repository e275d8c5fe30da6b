#include "spec/experiment/averaging.hpp"

#include <algorithm>
#include <cmath>

namespace trainctl::spec {

double decay_of_update(const ExponentialDecay& average, std::int64_t update) {
  if (update <= 1) return 0;
  if (!average.warmup) return average.decay;
  const auto& [gamma, power, min_decay] = *average.warmup;
  const double grown = 1 - std::pow(1 + static_cast<double>(update - 1) / gamma, -power);
  return std::max(std::min(grown, average.decay), min_decay);
}

double share_of_first(const ExponentialDecay& average, std::int64_t updates) {
  constexpr double kNegligible = 1e-6;
  if (!average.warmup) return std::pow(average.decay, static_cast<double>(updates - 1));
  double share = 1;
  for (std::int64_t update = 2; update <= updates && share > kNegligible; ++update)
    share *= decay_of_update(average, update);
  return share;
}

}  // namespace trainctl::spec
