#include "report/lr_curve.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

using namespace trainctl::report;

namespace {

/// A hundred rates from 1e-7 to 1, each with the loss of its decimal logarithm (-7 to 0).
std::vector<RateStep> sweep(const std::function<double(double exponent)>& loss, int steps = 100) {
  std::vector<RateStep> made;
  for (int i = 0; i < steps; ++i) {
    const double exponent = -7 + 7.0 * i / (steps - 1);
    made.push_back({std::pow(10, exponent), loss(exponent)});
  }
  return made;
}

/// Flat, a fall around 1e-4, a floor, and a wall from 1e-1 on.
double valley(double exponent) {
  const double fall = 2 / (1 + std::exp(-6 * (exponent + 4)));
  return 2.5 - fall + (exponent > -1 ? std::exp(12 * (exponent + 1)) - 1 : 0);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("a valley gives the rate where the loss falls fastest, and a tenth of the lowest") {
  const LrCurve curve = read_lr_curve(sweep(valley));
  REQUIRE(curve.steepest);
  CHECK(*curve.steepest > 3e-5);
  CHECK(*curve.steepest < 3e-3);  // smoothing is late
  REQUIRE(curve.minimum);
  CHECK(*curve.minimum > *curve.steepest);
  CHECK(*curve.tenth_of_minimum() == Approx(*curve.minimum / 10));
  REQUIRE(curve.diverged_at);
  CHECK(*curve.diverged_at > 0.1);
  CHECK(curve.steps.back().lr < *curve.diverged_at);
  CHECK(curve.remark.empty());
}

TEST_CASE("means are those of Adam: the first is the first loss") {
  const LrCurve curve = read_lr_curve(sweep([](double) { return 3.0; }));
  REQUIRE(curve.steps.size() == 100);
  for (const SmoothedStep& step : curve.steps) CHECK(step.smoothed == Approx(3));
  const LrCurve two = read_lr_curve(std::vector<RateStep>{{0.1, 1}, {0.2, 2}});
  REQUIRE(two.steps.size() == 2);
  CHECK(two.steps[0].smoothed == Approx(1));
  CHECK(two.steps[1].smoothed == Approx((0.98 * 0.02 * 1 + 0.02 * 2) / (1 - 0.98 * 0.98)));
}

TEST_CASE("a loss that falls to the end asks for higher rates, one that only rises for lower") {
  const LrCurve falling = read_lr_curve(sweep([](double exponent) { return 1 - exponent; }));
  REQUIRE(falling.steepest);
  CHECK_FALSE(falling.diverged_at);
  CHECK_THAT(falling.remark, Contains("raise --max"));

  const LrCurve rising = read_lr_curve(sweep([](double exponent) { return 8 + exponent; }));
  CHECK_FALSE(rising.steepest);
  CHECK_FALSE(rising.minimum);
  CHECK_FALSE(rising.tenth_of_minimum());
  CHECK_THAT(rising.remark, Contains("lower --min"));
}

TEST_CASE("losses that are never finite, and too few of them, give no rate") {
  for (const double bad : {kNan, std::numeric_limits<double>::infinity()}) {
    const LrCurve curve = read_lr_curve(sweep([&](double) { return bad; }));
    CHECK(curve.steps.empty());
    CHECK_FALSE(curve.steepest);
    CHECK(*curve.diverged_at == Approx(1e-7));
    CHECK_THAT(curve.remark, Contains("only 0 steps"));
  }
  const LrCurve few = read_lr_curve(sweep([](double exponent) { return -exponent; }, 9));
  CHECK_FALSE(few.steepest);
  CHECK_THAT(few.remark, Contains("only 9 steps") && Contains("10 are needed"));
  const LrCurve none = read_lr_curve({});
  CHECK_THAT(none.remark, Contains("only 0 steps"));
}

TEST_CASE("a loss below 0 is read like any other") {
  const LrCurve curve = read_lr_curve(sweep([](double exponent) { return valley(exponent) - 5; }));
  REQUIRE(curve.steepest);
  CHECK(*curve.steepest < 3e-3);
}

TEST_CASE("a loss at or below 0 is out of hand where it rises by three times its magnitude") {
  const auto diverges = [](double low, double high) {
    std::vector<RateStep> steps = sweep([&](double) { return low; }, 30);
    steps.back().loss = high;
    return read_lr_curve(steps).diverged_at.has_value();
  };
  CHECK(diverges(-1, 200));
  CHECK_FALSE(diverges(-1, 60));  // the mean of 30 rises by a thirtieth
  CHECK(diverges(0, 1));
  CHECK_FALSE(diverges(0, 0.1));  // hardly above 0
}

TEST_CASE("a first loss that is low by luck is not what the others are held against") {
  std::vector<RateStep> steps = sweep(valley);
  steps.front().loss = 0.01;
  const LrCurve curve = read_lr_curve(steps);
  CHECK(curve.steepest);
  REQUIRE(curve.diverged_at);
  CHECK(*curve.diverged_at > 0.1);
}

TEST_CASE("a curve is shown as rows and a line of bars, and in other programs as CSV and JSON") {
  const LrCurve curve = read_lr_curve(sweep(valley));
  const std::string text = lr_curve_text(curve, {.glyphs = Glyphs::unicode});
  CHECK_THAT(text, Contains("smoothed") && Contains("█") && Contains("steepest"));
  CHECK(lr_curve_text(curve, {.glyphs = Glyphs::ascii}).find("█") == std::string::npos);
  CHECK_THAT(lr_curve_text(read_lr_curve({}), {}), Contains("only 0 steps"));

  const std::string csv = lr_curve_csv(curve);
  CHECK(csv.starts_with("step,lr,loss,smoothed\n1,"));
  CHECK(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')) ==
        curve.steps.size() + 1);

  const trainctl::Json json = lr_curve_json(curve);
  CHECK(json["points"].size() == curve.steps.size());
  CHECK(json["suggestion"]["steepest"] == *curve.steepest);
  CHECK(lr_curve_json(read_lr_curve({}))["suggestion"]["steepest"].is_null());
}

TEST_CASE("rates have three digits") {
  CHECK(rate_of(0.00346812) == "0.00347");
  CHECK(rate_of(1e-7) == "1e-07");
  CHECK(rate_of(1) == "1");
}
