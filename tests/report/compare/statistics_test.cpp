#include "report/compare/statistics.hpp"

#include "report/noisy_bench.hpp"
#include "support/catch.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace trainctl;
using namespace trainctl::report;

namespace {

constexpr int kBenches = 2000;
template <class Compare>
double coverage(const noisy::Shape& shape, const Compare& compare) {
  int covered = 0;
  for (int i = 0; i < kBenches; ++i) {
    const noisy::Times times = noisy::bench(shape, 8, static_cast<std::uint64_t>(i));
    const Change change = compare(times.base, times.other);
    covered += change.interval && change.interval->low <= shape.slower &&
                       shape.slower <= change.interval->high
                   ? 1
                   : 0;
  }
  return static_cast<double>(covered) / kBenches;
}

Change paired(const std::vector<double>& base, const std::vector<double>& other) {
  return paired_change(base, other, Scale::ratio);
}

Change unpaired(const std::vector<double>& base, const std::vector<double>& other) {
  return unpaired_change(base, other, Scale::ratio);
}

}  // namespace

TEST_CASE("paired_change: 93 to 97 % of 2,000 intervals contain the true ratio") {
  for (const auto noise : {noisy::Noise::normal, noisy::Noise::slow_minutes}) {
    for (const int repeats : {3, 5, 8, 20}) {
      const double covered =
          coverage({.noise = noise, .size = 0.05, .slower = 1.07, .repeats = repeats}, paired);
      INFO("noise " << static_cast<int>(noise) << ", repeats " << repeats);
      CHECK(covered >= 0.93);
      CHECK(covered <= 0.97);
    }
  }
}

TEST_CASE("paired_change: heavy-tailed noise makes the interval too wide rather than too narrow") {
  for (const auto noise :
       {noisy::Noise::heavy_tailed, noisy::Noise::exponential, noisy::Noise::spikes}) {
    for (const int repeats : {5, 10}) {
      const double covered =
          coverage({.noise = noise, .size = 0.03, .slower = 0.9, .repeats = repeats}, paired);
      INFO("noise " << static_cast<int>(noise) << ", repeats " << repeats);
      CHECK(covered >= 0.93);
      CHECK(covered <= 0.99);
    }
  }
}

TEST_CASE("paired_change: skewed noise on one side makes the interval too narrow") {
  // The geometric mean of noise that only slows down is `size` above its minimum.
  for (const int repeats : {3, 5, 10}) {
    constexpr double kSize = 0.05;
    const noisy::Shape shape{
        .noise = noisy::Noise::exponential, .size = kSize, .repeats = repeats, .one_side = true};
    const double covered = coverage(shape, [&](const auto& base, const auto& other) {
      Change change = paired(base, other);
      change.interval->low *= std::exp(kSize);
      change.interval->high *= std::exp(kSize);
      return change;
    });
    INFO("repeats " << repeats);
    CHECK(covered >= 0.84);
    CHECK(covered <= 0.95);
  }
}

TEST_CASE("paired_change: slow minutes cancel in pairs but widen an unpaired interval") {
  const noisy::Shape shape{
      .noise = noisy::Noise::slow_minutes, .size = 0.01, .slower = 1, .repeats = 10};
  double paired_width = 0;
  double unpaired_width = 0;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const noisy::Times times = noisy::bench(shape, 3, i);
    const auto width = [](const Change& change) {
      return change.interval->high - change.interval->low;
    };
    paired_width += width(paired(times.base, times.other));
    unpaired_width += width(unpaired(times.base, times.other));
  }
  CHECK(paired_width < unpaired_width / 4);
}

TEST_CASE("unpaired_change: 93 to 97.5 % of 2,000 intervals contain the true ratio") {
  const double covered = coverage({.size = 0.04, .slower = 1.1, .repeats = 6}, unpaired);
  CHECK(covered >= 0.93);
  CHECK(covered <= 0.975);
}

TEST_CASE("paired_change: ratios give their geometric mean and Student's interval") {
  const std::array base{10.0, 10.0, 10.0};
  const std::array other{20.0, 20.0, 22.0};
  const Change change = paired_change(base, other, Scale::ratio);
  CHECK(*change.value == Approx(2.06456).epsilon(1e-5));
  CHECK(change.interval->low == Approx(1.80078).epsilon(1e-5));
  CHECK(change.interval->high == Approx(2.36698).epsilon(1e-5));
  CHECK(change.df == 2);
  CHECK(change.repeats == 3);
  const Change wide = paired_change(base, other, Scale::ratio, 0.99);
  CHECK(wide.interval->low < change.interval->low);
}

TEST_CASE("paired_change: differences keep their unit and may be negative") {
  const std::array base{0.90, 0.91, 0.92};
  const std::array other{0.89, 0.91, 0.90};
  const Change change = paired_change(base, other, Scale::difference);
  CHECK(*change.value == Approx(-0.01));
  CHECK(change.interval->low < -0.01);
  CHECK(change.interval->high > -0.01);
}

TEST_CASE("unpaired_change: the degrees of freedom match Welch's formula") {
  // The variances are 1 and 4; the expected values are computed by hand.
  const std::array base{1.0, 2.0, 3.0};
  const std::array other{2.0, 4.0, 6.0};
  const Change change = unpaired_change(base, other, Scale::difference);
  CHECK(*change.value == Approx(2));
  CHECK(change.df == Approx(25.0 / 8.5));
  CHECK(change.noise == Approx(std::sqrt(5.0)));
}

TEST_CASE("unpaired_change: a single run uses the noise of the other side") {
  const std::array one{10.0};
  const std::array several{10.0, 10.4, 9.7, 10.1};
  const Change change = unpaired_change(one, several, Scale::ratio);
  REQUIRE(change.interval.has_value());
  CHECK(change.df == 3);
  CHECK(change.interval->low < 1);
  CHECK(change.interval->high > 1);
  CHECK_FALSE(unpaired_change(one, one, Scale::ratio).interval.has_value());
  CHECK(unpaired_change(one, one, Scale::ratio).value == 1);
}

TEST_CASE("Change: too few values and values without a ratio give no interval") {
  const std::array two{1.0, 2.0};
  CHECK(paired_change(two, two, Scale::ratio).value == 1);
  CHECK_FALSE(paired_change(two, two, Scale::ratio).interval.has_value());
  CHECK_FALSE(paired_change({}, two, Scale::ratio).value.has_value());
  const std::array odd{0.0, -1.0, std::nan(""), 4.0};
  const std::array fine{1.0, 1.0, 1.0, 2.0};
  CHECK(paired_change(odd, fine, Scale::ratio).repeats == 1);
  CHECK(paired_change(odd, fine, Scale::difference).repeats == 3);
  CHECK_FALSE(unpaired_change({}, fine, Scale::ratio).value.has_value());
}

TEST_CASE("Change: constant values have an interval of zero width") {
  const std::array base{2.0, 2.0, 2.0};
  const std::array other{4.0, 4.0, 4.0};
  for (const Change& change :
       {paired_change(base, other, Scale::ratio), unpaired_change(base, other, Scale::ratio)}) {
    CHECK(change.interval->low == Approx(2));
    CHECK(change.interval->high == Approx(2));
  }
}

namespace {

/// Returns the coverage for benches in which one run of the base takes `times` times as long.
double coverage_with_outlier(int repeats, double times, bool is_unpaired) {
  constexpr std::uint64_t kMany = 2000;
  constexpr double kSlower = 1.1;
  int covered = 0;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    noisy::Times bench = noisy::bench({.size = 0.01, .slower = kSlower, .repeats = repeats}, 77, i);
    bench.base[i % bench.base.size()] *= times;
    const Change change = is_unpaired ? unpaired_change(bench.base, bench.other, Scale::ratio)
                                      : paired_change(bench.base, bench.other, Scale::ratio);
    covered += change.interval->low <= kSlower && kSlower <= change.interval->high ? 1 : 0;
  }
  return covered / static_cast<double>(kMany);
}

}  // namespace

TEST_CASE("Change: one slow outlier in a baseline does not hide a slowdown of 10 %") {
  const std::vector<double> base{10.0, 10.1, 16.0, 9.9, 10.05};
  const std::vector<double> slower{11.0, 11.1, 10.9, 11.05, 11.15};
  for (const Change& change :
       {unpaired_change(base, slower, Scale::ratio), paired_change(base, slower, Scale::ratio)}) {
    REQUIRE(change.interval);
    CHECK(change.outliers == 1);
    CHECK(change.interval->low > 1.05);
    CHECK(change.interval->high < 1.15);
  }
}

TEST_CASE("Change: the interval covers the true ratio despite an outlier of any size") {
  for (const int repeats : {4, 5, 8, 12, 20}) {
    for (const double times : {1.1, 1.3, 2.0, 10.0}) {
      for (const bool is_unpaired : {false, true}) {
        CAPTURE(repeats, times, is_unpaired);
        CHECK(coverage_with_outlier(repeats, times, is_unpaired) >= 0.90);
      }
    }
  }
}

TEST_CASE(
    "Change: Welch's interval covers the true ratio under skewed noise and frequent outliers") {
  for (const auto noise :
       {noisy::Noise::exponential, noisy::Noise::heavy_tailed, noisy::Noise::spikes}) {
    for (const int repeats : {4, 5, 8, 12, 20}) {
      CAPTURE(static_cast<int>(noise), repeats);
      const double covered =
          coverage({.noise = noise, .size = 0.03, .slower = 1.1, .repeats = repeats}, unpaired);
      CHECK(covered >= 0.90);
      CHECK(covered <= 0.99);
    }
  }
}

TEST_CASE("Change: small deviations and differences of ratios are not outliers") {
  const std::vector<double> base{10.0, 10.1, 10.4, 9.9, 10.05};
  const std::vector<double> other{11.0, 11.1, 10.9, 11.05, 11.15};
  CHECK(unpaired_change(base, other, Scale::ratio).outliers == 0);
  const std::vector<double> shares{0.9, 0.9, 0.1, 0.9, 0.9};
  CHECK(unpaired_change(shares, shares, Scale::difference).outliers == 0);
  CHECK(unpaired_change(std::vector{1.0, 1.0, 9.0}, base, Scale::ratio).outliers == 0);
}
