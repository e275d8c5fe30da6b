#include "base/random.hpp"
#include "base/statistics.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <limits>
#include <vector>

using namespace trainctl;

TEST_CASE("student_quantile: the values equal printed tables") {
  struct Row {
    double p, df, t;
  };
  // The values are from Abramowitz & Stegun, "Handbook of Mathematical Functions", table 26.10. For
  // df 1 and 2 there are closed forms: a tangent and a square root.
  const Row rows[] = {{0.975, 1, 12.706205}, {0.975, 2, 4.302653},  {0.975, 4, 2.776445},
                      {0.975, 9, 2.262157},  {0.975, 30, 2.042272}, {0.95, 4, 2.131847},
                      {0.995, 4, 4.604095},  {0.9995, 4, 8.610302}, {0.975, 120, 1.979930}};
  for (const Row& row : rows) {
    CHECK(student_quantile(row.p, row.df) == Approx(row.t).epsilon(1e-6));
    CHECK(student_quantile(1 - row.p, row.df) == Approx(-row.t).epsilon(1e-6));
    CHECK(student_cdf(student_quantile(row.p, row.df), row.df) == Approx(row.p).epsilon(1e-10));
  }
  CHECK(student_quantile(0.5, 7) == 0);
  CHECK(student_quantile(0.975, 1e6) == Approx(1.959964).epsilon(1e-5));
  const double between = student_quantile(0.975, 4.5);
  CHECK(between < student_quantile(0.975, 4));
  CHECK(between > student_quantile(0.975, 5));
}

TEST_CASE("student_quantile: it is NaN for an invalid probability or degree of freedom") {
  for (const double p : {-1.0, 0.0, 1.0, 2.0}) CHECK(std::isnan(student_quantile(p, 4)));
  CHECK(std::isnan(student_quantile(0.9, 0)));
  CHECK(std::isnan(student_cdf(std::nan(""), 4)));
  CHECK(student_cdf(std::numeric_limits<double>::infinity(), 4) == 1);
  CHECK(student_cdf(0, 3) == 0.5);
}

TEST_CASE("repeats_for: the power of a paired test equals Cohen's tables") {
  // The two-sided tables for 5 % are from "Statistical Power Analysis for the Behavioral Sciences",
  // 2nd edition.
  CHECK(repeats_for(2, 1, {.power = 0.8, .alpha = 0.05, .most = 1000}) == 34);
  CHECK(repeats_for(2, 1, {.power = 0.9, .alpha = 0.05, .most = 1000}) == 44);
  CHECK(power_of(2, 1, 34, 0.05) == Approx(0.8078).margin(5e-4));
  CHECK(power_of(1, 0, 10, 0.05) == 0);
  CHECK(power_of(0, 1, 10, 0.05) == 1);
}

TEST_CASE("repeats_for: more noise takes more repeats, and a tiny effect has no solution") {
  int last = 0;
  for (const double noise : {0.001, 0.01, 0.02, 0.05, 0.1, 0.3}) {
    const auto needed = repeats_for(noise, 0.05);
    REQUIRE(needed.has_value());
    CHECK(*needed >= last);
    last = *needed;
  }
  CHECK(repeats_for(0.001, 0.05) == 3);
  CHECK_FALSE(repeats_for(0.05, 0).has_value());
  CHECK_FALSE(repeats_for(0.05, 0.0001).has_value());
}

TEST_CASE("deviation_limit: it is above the true deviation in four of five samples") {
  constexpr int kSamples = 4000;
  for (const int size : {3, 5, 10}) {
    int above = 0;
    for (int i = 0; i < kSamples; ++i) {
      CounterRng rng(11, static_cast<std::uint32_t>(size), static_cast<std::uint64_t>(i), 0);
      std::vector<double> values;
      for (int k = 0; k < size; ++k) {
        const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(rng.uniform())));
        values.push_back(radius * std::cos(6.283185307179586 * static_cast<double>(rng.uniform())));
      }
      above += deviation_limit(std::sqrt(variance(values)), size - 1) >= 1 ? 1 : 0;
    }
    CHECK(static_cast<double>(above) / kSamples == Approx(0.8).margin(0.03));
  }
}
