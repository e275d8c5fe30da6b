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
