#include "report/speedup.hpp"

#include "base/philox.hpp"
#include "base/stats.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trainctl::report {
namespace {

constexpr std::size_t kFewestPairs = 3;
constexpr std::uint64_t kResamples = 10000;
constexpr std::uint64_t kSeed = 95;

bool usable(double seconds) { return std::isfinite(seconds) && seconds > 0; }

Interval bootstrap_median(std::span<const double> ratios) {
  std::vector<double> medians;
  std::vector<double> sample(ratios.size());
  for (std::uint64_t i = 0; i < kResamples; ++i) {
    CounterRng rng(kSeed, 0, i, 0);
    for (double& value : sample) value = ratios[rng.below(ratios.size())];
    medians.push_back(median(sample));
  }
  return {quantile(medians, 0.025), quantile(medians, 0.975)};
}

}  // namespace

Speedup speedup(std::span<const double> base_s, std::span<const double> other_s) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(base_s.size(), other_s.size()); ++i) {
    if (usable(base_s[i]) && usable(other_s[i])) ratios.push_back(base_s[i] / other_s[i]);
  }
  Speedup result{.value = {}, .ci95 = {}, .pairs = ratios.size()};
  if (!ratios.empty()) result.value = median(ratios);
  if (ratios.size() >= kFewestPairs) result.ci95 = bootstrap_median(ratios);
  return result;
}

}  // namespace trainctl::report
