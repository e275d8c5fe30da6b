#include "report/search/lr_curve.hpp"

#include "report/recorded_sweeps.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

using namespace trainctl::report;

namespace {

/// Returns rates from 1e-7 to 1, each with the loss for its decimal logarithm (-7 to 0).
std::vector<RateStep> sweep(const std::function<double(double exponent)>& loss, int steps = 100) {
  std::vector<RateStep> made;
  for (int i = 0; i < steps; ++i) {
    const double exponent = -7 + 7.0 * i / (steps - 1);
    made.push_back({std::pow(10, exponent), loss(exponent)});
  }
  return made;
}

/// Returns a loss that is flat, falls around 1e-4, has a minimum, and explodes from 1e-1 on.
double valley(double exponent) {
  const double fall = 2 / (1 + std::exp(-6 * (exponent + 4)));
  return 2.5 - fall + (exponent > -1 ? std::exp(12 * (exponent + 1)) - 1 : 0);
}

LrCurve read_recorded(const recorded::Sweep& recording) {
  std::vector<RateStep> steps;
  for (const double loss : recording.losses) {
    if (loss == 0) break;
    const double share =
        static_cast<double>(steps.size()) / static_cast<double>(recording.losses.size() - 1);
    steps.push_back({recording.low * std::pow(recording.high / recording.low, share), loss});
  }
  return read_lr_curve(steps);
}

/// Returns whether the suggestion is within these rates, and checks that its range contains it.
bool suggests_within(const LrCurve& curve, double low, double high) {
  if (!curve.range) return false;
  const RateRange& range = *curve.range;
  CAPTURE(range.low, range.suggestion, range.high);
  CHECK(range.low <= range.suggestion);
  CHECK(range.suggestion <= range.high);
  return low <= range.suggestion && range.suggestion <= high;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("read_lr_curve: a valley gives a rate on its descending side") {
  const LrCurve curve = read_lr_curve(sweep(valley));
  REQUIRE(curve.steepest);
  CHECK(*curve.steepest > 5e-5);
  CHECK(*curve.steepest < 2e-4);
  CHECK(suggests_within(curve, 5e-5, 5e-4));
  REQUIRE(curve.minimum);
  CHECK(*curve.minimum > *curve.steepest);
  CHECK(*curve.tenth_of_minimum() == Approx(*curve.minimum / 10));
  REQUIRE(curve.diverged_at);
  CHECK(*curve.diverged_at > 0.1);
  CHECK(curve.steps.back().lr < *curve.diverged_at);
  CHECK(curve.remark.empty());
}

// The bounds are the rates whose trainings reach within two points of the best rate's accuracy.

TEST_CASE("read_lr_curve: a steep recorded loss that diverges gives a rate that trains well") {
  const LrCurve curve = read_recorded(recorded::kMlpSgd);
  CHECK(curve.diverged_at);
  CHECK(suggests_within(curve, 0.0085, 0.055));
}

TEST_CASE(
    "read_lr_curve: a noisy recorded loss that never diverges gives a rate that trains well") {
  const LrCurve curve = read_recorded(recorded::kMlpAdamw);
  CHECK_FALSE(curve.diverged_at);
  CHECK(suggests_within(curve, 0.0006, 0.015));
}

TEST_CASE("read_lr_curve: a recorded loss that is flat for long gives a rate that trains well") {
  CHECK(suggests_within(read_recorded(recorded::kLenetSgd), 0.007, 0.035));
}

TEST_CASE("read_lr_curve: a recorded loss with a wide floor gives a rate that trains well") {
  CHECK(suggests_within(read_recorded(recorded::kTransformerAdamw), 0.0009, 0.012));
}

TEST_CASE("read_lr_curve: a recorded loss that never falls gives no rate") {
  const LrCurve curve = read_recorded(recorded::kUntrained);
  CHECK_FALSE(curve.suggestion());
  CHECK_FALSE(curve.minimum);
  CHECK_THAT(curve.remark, Contains("does not clearly decrease"));
}

TEST_CASE("read_lr_curve: a flat loss gives no rate, with noise and without") {
  CHECK_FALSE(read_lr_curve(sweep([](double) { return 3.0; })).suggestion());
  int step = 0;
  const auto noisy = [&](double) {
    ++step;
    return 3.0 + 0.3 * std::sin(7.3 * step * step);
  };
  CHECK_FALSE(read_lr_curve(sweep(noisy)).suggestion());
}

TEST_CASE("read_lr_curve: the smoothed loss is centered on its step") {
  const LrCurve curve = read_lr_curve(sweep([](double exponent) { return 1 - exponent; }));
  REQUIRE(curve.steps.size() == 100);
  for (std::size_t i = 15; i + 15 < curve.steps.size(); ++i)
    CHECK(curve.steps[i].smoothed == Approx(curve.steps[i].loss));
}

TEST_CASE("read_lr_curve: one exploding loss hardly raises the means of the steps before it") {
  const auto smooth = [](double exponent) { return 3 - 2 / (1 + std::exp(-4 * (exponent + 3))); };
  const LrCurve before = read_lr_curve(sweep(smooth));
  std::vector<RateStep> steps = sweep(smooth);
  steps[95].loss = 50;
  const LrCurve after = read_lr_curve(steps);
  REQUIRE(before.suggestion());
  REQUIRE(after.suggestion());
  CHECK(*after.suggestion() == Approx(*before.suggestion()).epsilon(0.3));
}

TEST_CASE(
    "read_lr_curve: a loss that falls to the end asks for higher rates, and a rising one "
    "for lower") {
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

TEST_CASE("read_lr_curve: too few finite losses give no rate") {
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

TEST_CASE("read_lr_curve: a negative loss is read like a positive one") {
  const LrCurve curve = read_lr_curve(sweep([](double exponent) { return valley(exponent) - 5; }));
  REQUIRE(curve.steepest);
  CHECK(suggests_within(curve, 5e-5, 5e-4));
}

TEST_CASE("read_lr_curve: a loss at or below 0 diverges if it rises by three times its magnitude") {
  const auto diverges = [](double low, double high) {
    std::vector<RateStep> steps = sweep([&](double) { return low; }, 30);
    steps.back().loss = high;
    return read_lr_curve(steps).diverged_at.has_value();
  };
  CHECK(diverges(-1, 200));
  CHECK_FALSE(diverges(-1, 60));  // the mean of 30 rises by a thirtieth
  CHECK(diverges(0, 1));
  CHECK_FALSE(diverges(0, 0.1));  // 0.1 is only slightly above 0
}

TEST_CASE("read_lr_curve: an exceptionally low first loss is not the reference for divergence") {
  std::vector<RateStep> steps = sweep(valley);
  steps.front().loss = 0.01;
  const LrCurve curve = read_lr_curve(steps);
  CHECK(curve.steepest);
  REQUIRE(curve.diverged_at);
  CHECK(*curve.diverged_at > 0.1);
}

TEST_CASE("lr curve: available as text with bars, CSV and JSON") {
  const LrCurve curve = read_lr_curve(sweep(valley));
  const std::string text = lr_curve_text(curve, {.glyphs = Glyphs::unicode});
  CHECK_THAT(text, Contains("smoothed") && Contains("█") && Contains("steepest") &&
                       Contains("range") && Contains("suggestion"));
  CHECK(lr_curve_text(curve, {.glyphs = Glyphs::ascii}).find("█") == std::string::npos);
  CHECK_THAT(lr_curve_text(read_lr_curve({}), {}), Contains("only 0 steps"));

  const std::string csv = lr_curve_csv(curve);
  CHECK(csv.starts_with("step,lr,loss,smoothed\n1,"));
  CHECK(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')) ==
        curve.steps.size() + 1);

  const trainctl::Json json = lr_curve_json(curve);
  CHECK(json["points"].size() == curve.steps.size());
  CHECK(json["suggestion"]["lr"] == *curve.suggestion());
  CHECK(json["suggestion"]["low"] == curve.range->low);
  CHECK(json["suggestion"]["high"] == curve.range->high);
  CHECK(json["suggestion"]["steepest"] == *curve.steepest);
  CHECK(lr_curve_json(read_lr_curve({}))["suggestion"]["lr"].is_null());
  CHECK(lr_curve_json(read_lr_curve({}))["suggestion"]["low"].is_null());
}

TEST_CASE("rate_of: rates have three significant digits") {
  CHECK(rate_of(0.00346812) == "0.00347");
  CHECK(rate_of(1e-7) == "1e-07");
  CHECK(rate_of(1) == "1");
}
