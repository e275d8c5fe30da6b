#include "report/compare/statistics.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace trainctl;
using namespace trainctl::report;

namespace {

/// Returns the fraction of simulated comparisons of `pairs` pairs that detect a slowdown, two-sided
/// at 5 %.
double power(int pairs, double slowdown, double variation) {
  const double critical = pairs == 5 ? 2.776445 : 2.093024;
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal(0, variation);
  constexpr int kTrials = 4000;
  int found = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < pairs; ++i) {
      const double difference = std::log1p(slowdown) + normal(engine) - normal(engine);
      sum += difference;
      squares += difference * difference;
    }
    const double mean = sum / pairs;
    const double deviation = std::sqrt((squares - sum * mean) / (pairs - 1));
    if (mean / (deviation / std::sqrt(pairs)) > critical) ++found;
  }
  return static_cast<double>(found) / kTrials;
}

std::vector<double> times(double variation) {
  std::mt19937_64 engine(11);
  std::normal_distribution<double> normal(0, variation);
  std::vector<double> seconds;
  for (int i = 0; i < 4000; ++i) seconds.push_back(0.1 * std::exp(normal(engine)));
  return seconds;
}

}  // namespace

TEST_CASE("noise: the reported detectable slowdown is detected nine times in ten") {
  for (const double variation : {0.005, 0.02, 0.1}) {
    CAPTURE(variation);
    const Noise noise = noise_of(times(variation));
    CHECK(noise.variation == Approx(variation).epsilon(0.05));
    CHECK(power(5, noise.slowdown_5, variation) == Approx(0.9).margin(0.04));
    CHECK(power(20, noise.slowdown_20, variation) == Approx(0.9).margin(0.04));
  }
}

TEST_CASE("noise: more repeats and less noise detect smaller slowdowns") {
  const Noise quiet = noise_of(times(0.01));
  const Noise loud = noise_of(times(0.05));
  CHECK(quiet.slowdown_20 < quiet.slowdown_5);
  CHECK(quiet.slowdown_5 < loud.slowdown_5);
}

TEST_CASE("noise: invalid times are ignored, and without times there is no result") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(noise_of({}).repeats == 0);
  CHECK(noise_of(std::vector<double>{0, -1, nan}).repeats == 0);
  const Noise one = noise_of(std::vector<double>{0.1, nan});
  CHECK(one.repeats == 1);
  CHECK(one.variation == 0);
}

TEST_CASE("noise: the text has the repeats and the detectable slowdown") {
  const std::string text = noise_text(noise_of(std::vector<double>{0.1, 0.101, 0.099}));
  CHECK_THAT(text,
             Contains("3 repeats of 100 ms") && Contains("5 repeats detects a slowdown of 2.8 %"));
  CHECK(noise_json(noise_of(std::vector<double>{0.1}))["detectable_slowdown"].contains("20"));
}
