#include "base/statistics.hpp"

#include "support/catch.hpp"

#include <cmath>
#include <vector>

using namespace trainctl;

TEST_CASE("quartiles: values are interpolated like in numpy") {
  const std::vector<double> values{7, 1, 3, 5};
  const Quartiles q = quartiles(values);
  CHECK(q.q1 == Approx(2.5));
  CHECK(q.median == Approx(4.0));
  CHECK(q.q3 == Approx(5.5));
  CHECK(mean(values) == Approx(4.0));
  CHECK(std::isnan(median({})));
}

TEST_CASE("variance: the sum of squares is divided by n - 1") {
  CHECK(variance(std::vector<double>{2, 4, 4, 4, 5, 5, 7, 9}) == Approx(32.0 / 7));
  CHECK(variance(std::vector<double>{3, 3}) == 0);
  CHECK(std::isnan(variance(std::vector<double>{3})));
}

TEST_CASE("histogram_of: counts finite values in bins of equal width") {
  std::vector<float> values{std::numeric_limits<float>::infinity(), std::nanf("")};
  for (int i = 0; i <= 60; ++i) values.push_back(static_cast<float>(i));
  const Histogram found = histogram_of(std::span<const float>(values));
  CHECK(found.num == 61);
  CHECK(found.min == 0);
  CHECK(found.max == 60);
  CHECK(found.sum == 1830);
  CHECK(found.sum_squares == 73810);
  REQUIRE(found.counts.size() == 30);
  CHECK(found.counts.front() == 2);
  CHECK(found.counts.back() == 3);  // the last bin includes the maximum
  CHECK(histogram_of(std::vector<double>{}).counts.empty());
  CHECK(histogram_of(std::vector<double>{5, 5}).counts == std::vector<double>{2});
}
