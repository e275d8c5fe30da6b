#include "base/random.hpp"
#include "report/compare/statistics.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

using namespace trainctl;
using namespace trainctl::report;

namespace {

/// Returns a normal number by the Box-Muller transform.
double normal(CounterRng& rng) {
  const double u = (static_cast<double>(rng.next_u32()) + 0.5) / 4294967296.0;
  const double v = (static_cast<double>(rng.next_u32()) + 0.5) / 4294967296.0;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

}  // namespace

TEST_CASE("mean_interval: returns Student's interval for two or more values") {
  const MeanInterval three = mean_interval(std::vector<double>{1, 2, 3});
  REQUIRE(three.ci95);
  CHECK(three.mean == 2.0);
  CHECK(three.ci95->low == Approx(2 - 4.30265272991 / std::sqrt(3)));
  CHECK(three.ci95->high == Approx(2 + 4.30265272991 / std::sqrt(3)));
  const MeanInterval one = mean_interval(std::vector<double>{5});
  CHECK(one.mean == 5.0);
  CHECK_FALSE(one.ci95);
  CHECK_FALSE(mean_interval({}).mean);
}

TEST_CASE("mean_interval: non-finite values are skipped together with their partners") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(mean_interval(std::vector<double>{1, nan, 3}).count == 2);
  const MeanInterval pairs =
      paired_interval(std::vector<double>{1, nan, 3}, std::vector<double>{2, 5, 5, 9});
  CHECK(pairs.count == 2);
  CHECK(pairs.mean == 1.5);
}

TEST_CASE("mean_interval: equal values have an interval of zero width") {
  const MeanInterval same = mean_interval(std::vector<double>{0.5, 0.5, 0.5});
  REQUIRE(same.ci95);
  CHECK(same.ci95->low == 0.5);
  CHECK(same.ci95->high == 0.5);
}

TEST_CASE("mean_interval: 93 to 97 % of 2,000 intervals contain the true mean") {
  for (const std::size_t seeds : {3U, 5U}) {
    int covered = 0;
    constexpr int kStudies = 2000;
    for (int study = 0; study < kStudies; ++study) {
      CounterRng rng(11, static_cast<std::uint32_t>(seeds), static_cast<std::uint64_t>(study), 0);
      std::vector<double> values(seeds);
      for (double& value : values) value = 0.9 + 0.02 * normal(rng);
      const MeanInterval found = mean_interval(values);
      REQUIRE(found.ci95);
      covered += found.ci95->low <= 0.9 && 0.9 <= found.ci95->high ? 1 : 0;
    }
    CAPTURE(seeds);
    CHECK(covered >= 0.93 * kStudies);
    CHECK(covered <= 0.97 * kStudies);
  }
}
