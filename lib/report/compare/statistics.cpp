#include "report/compare/statistics.hpp"

#include "base/error.hpp"
#include "report/text/format.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>

namespace trainctl::report {
namespace {

bool usable(double value, Scale scale) {
  return std::isfinite(value) && (scale == Scale::difference || value > 0);
}

double inner(double value, Scale scale) { return scale == Scale::ratio ? std::log(value) : value; }

double outer(double value, Scale scale) { return scale == Scale::ratio ? std::exp(value) : value; }

struct Moments {
  double mean = 0;
  double error = 0;  // standard error of the mean
  double df = 0;
};

/// Returns Student's interval; `p` is the probability below its upper end.
Interval around(double middle, double error, double freedom, double p = 0.975) {
  const double reach = student_quantile(p, freedom) * error;
  return {middle - reach, middle + reach};
}

void set_interval(Change& change, const Moments& moments, Scale scale, double level) {
  const Interval inside = around(moments.mean, moments.error, moments.df, (1 + level) / 2);
  change.interval = Interval{outer(inside.low, scale), outer(inside.high, scale)};
}

std::vector<double> inner_values(std::span<const double> values, Scale scale) {
  std::vector<double> found;
  for (const double value : values) {
    if (usable(value, scale)) found.push_back(inner(value, scale));
  }
  return found;
}

constexpr std::size_t kFewestWithOutlier = 4;
constexpr std::size_t kMostWithOutlier = 20;  // larger samples need no such step
constexpr double kOutlierShare = 0.4;         // of the probability outside the interval
constexpr double kSameLogarithm = 1e-9;       // smaller differences of logarithms count as equal

/// Drops the value that is furthest from the others if its Student's t distance from them is
/// exceeded by n values without an outlier in only `(1 - level) * 0.4 / n` of all samples. Returns
/// the number of dropped values.
std::size_t drop_outlier(std::vector<double>& values, double level) {
  const std::size_t count = values.size();
  if (count < kFewestWithOutlier || count > kMostWithOutlier) return 0;
  const double middle = median(values);
  const auto furthest =
      std::ranges::max_element(values, {}, [&](double value) { return std::abs(value - middle); });
  const double suspect = *furthest;
  std::vector<double> others = values;
  others.erase(others.begin() + (furthest - values.begin()));
  const auto n = static_cast<double>(count);
  const double deviation = std::sqrt(variance(others) * (1 + 1 / (n - 1)));
  const double limit = student_quantile(1 - kOutlierShare * (1 - level) / (2 * n * n), n - 2);
  const double distance = std::abs(suspect - mean(others));
  if (!(distance > kSameLogarithm && distance > limit * deviation)) return 0;
  values = std::move(others);
  return 1;
}

double deviation(std::span<const double> values) {
  return values.size() < 2 ? 0 : std::sqrt(variance(values));
}

SideNoise side_of(std::span<const double> values) { return {deviation(values), values.size()}; }

/// The noise of the mean of a side, and of a single repeat.
struct Welch {
  double error = 0;
  double df = 0;
  double noise = 0;
};

Welch pooled(std::span<const double> several, double others) {
  const auto count = static_cast<double>(several.size());
  const double each = variance(several);
  return {std::sqrt(each / count + each / others), count - 1, std::sqrt(2 * each)};
}

Welch welch(std::span<const double> base, std::span<const double> other) {
  if (base.size() == 1) return pooled(other, 1);
  if (other.size() == 1) return pooled(base, 1);
  const auto bases = static_cast<double>(base.size());
  const auto others = static_cast<double>(other.size());
  const double a = variance(base) / bases;
  const double b = variance(other) / others;
  const double noise = std::sqrt(variance(base) + variance(other));
  if (a + b <= 0) return {0, bases + others - 2, 0};
  // Welch-Satterthwaite degrees of freedom.
  const double df = (a + b) * (a + b) / (a * a / (bases - 1) + b * b / (others - 1));
  return {std::sqrt(a + b), df, noise};
}

constexpr double kOf5 = 1.966777;
constexpr double kOf20 = 0.767470;

double slowdown(double k, double variation) {
  return std::expm1(k * std::numbers::sqrt2 * variation);
}

std::string percent_with_decimal(double share) { return fmt::format("{:.1f}", 100 * share); }

}  // namespace

Interval extent_of(std::span<const double> values) {
  Interval extent{std::numeric_limits<double>::infinity(),
                  -std::numeric_limits<double>::infinity()};
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    extent.low = std::min(extent.low, value);
    extent.high = std::max(extent.high, value);
  }
  return extent;
}

Change paired_change(std::span<const double> base, std::span<const double> other, Scale scale,
                     double level) {
  std::vector<double> pairs;
  for (std::size_t i = 0; i < std::min(base.size(), other.size()); ++i) {
    if (usable(base[i], scale) && usable(other[i], scale))
      pairs.push_back(inner(other[i], scale) - inner(base[i], scale));
  }
  Change change{.repeats = pairs.size()};
  if (scale == Scale::ratio) change.outliers = drop_outlier(pairs, level);
  if (pairs.empty()) return change;
  const double middle = mean(pairs);
  change.value = outer(middle, scale);
  if (pairs.size() < 2) return change;
  change.noise = std::sqrt(variance(pairs));
  change.df = static_cast<double>(pairs.size()) - 1;
  if (pairs.size() < kFewestPairs) return change;
  const double error = change.noise / std::sqrt(static_cast<double>(pairs.size()));
  set_interval(change, {middle, error, change.df}, scale, level);
  return change;
}

Change unpaired_change(std::span<const double> base, std::span<const double> other, Scale scale,
                       double level) {
  std::vector<double> before = inner_values(base, scale);
  std::vector<double> now = inner_values(other, scale);
  const std::size_t repeats = std::min(before.size(), now.size());
  std::size_t outliers = 0;
  if (scale == Scale::ratio) outliers = drop_outlier(before, level) + drop_outlier(now, level);
  Change change{.repeats = repeats,
                .outliers = outliers,
                .apart = true,
                .base_side = side_of(before),
                .now_side = side_of(now)};
  if (before.empty() || now.empty()) return change;
  const double middle = mean(now) - mean(before);
  change.value = outer(middle, scale);
  if (before.size() < 2 && now.size() < 2) return change;
  const Welch noise = welch(before, now);
  change.noise = noise.noise;
  change.df = noise.df;
  if (std::max(before.size(), now.size()) < kFewestPairs) return change;
  set_interval(change, {middle, noise.error, noise.df}, scale, level);
  return change;
}

MeanInterval mean_interval(std::span<const double> values) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  MeanInterval result{.count = finite.size()};
  if (finite.empty()) return result;
  result.mean = mean(finite);
  if (finite.size() < 2) return result;
  const auto count = static_cast<double>(finite.size());
  result.deviation = std::sqrt(variance(finite));
  result.ci95 = around(*result.mean, *result.deviation / std::sqrt(count), count - 1);
  return result;
}

MeanInterval paired_interval(std::span<const double> base, std::span<const double> values) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(base.size(), values.size()); ++i)
    differences.push_back(values[i] - base[i]);
  return mean_interval(differences);
}

MeanDifference paired_difference(std::span<const double> base, std::span<const double> other) {
  ASSERT(base.size() == other.size());
  std::vector<double> differences;
  for (std::size_t i = 0; i < base.size(); ++i) differences.push_back(other[i] - base[i]);
  MeanDifference found{
      .base = mean(base), .other = mean(other), .difference = mean(differences), .paired = true};
  const auto n = static_cast<double>(differences.size());
  if (n >= 2) found.ci95 = around(found.difference, std::sqrt(variance(differences) / n), n - 1);
  return found;
}

MeanDifference unpaired_difference(std::span<const double> base, std::span<const double> other) {
  MeanDifference found{.base = mean(base), .other = mean(other)};
  found.difference = found.other - found.base;
  if (base.size() < 2 || other.size() < 2) return found;
  const Welch noise = welch(base, other);
  found.ci95 = around(found.difference, noise.error, noise.df);
  return found;
}

Speedup speedup(std::span<const double> base_s, std::span<const double> other_s) {
  const Change change = paired_change(other_s, base_s, Scale::ratio);
  return {.value = change.value, .ci95 = change.interval, .pairs = change.repeats};
}

std::string gain_text(const Speedup& gain) {
  if (!gain.value) return "-";
  const std::string value = fmt::format("{:.2f}x", *gain.value);
  if (!gain.ci95) return value;
  return value + fmt::format(" [{:.2f}, {:.2f}]", gain.ci95->low, gain.ci95->high);
}

Noise noise_of(std::span<const double> seconds) {
  std::vector<double> kept;
  std::vector<double> logs;
  for (const double one : seconds) {
    if (!(one > 0) || !std::isfinite(one)) continue;
    kept.push_back(one);
    logs.push_back(std::log(one));
  }
  Noise noise;
  if (kept.empty()) return noise;
  noise.repeats = static_cast<int>(kept.size());
  noise.median_s = median(kept);
  noise.variation = deviation(logs);
  noise.slowdown_5 = slowdown(kOf5, noise.variation);
  noise.slowdown_20 = slowdown(kOf20, noise.variation);
  return noise;
}

std::string noise_text(const Noise& noise) {
  return fmt::format(
      "identical work varies by {} % ({} repeats of {:.0f} ms): with a probability of 90 %, a "
      "bench with 5 repeats detects a slowdown of {} %, and a bench with 20 repeats a slowdown of "
      "{} %",
      percent_with_decimal(noise.variation), noise.repeats, 1000 * noise.median_s,
      percent_with_decimal(noise.slowdown_5), percent_with_decimal(noise.slowdown_20));
}

Json noise_json(const Noise& noise) {
  return joined(
      {JSON_FIELDS(noise, repeats, median_s, variation),
       {{"detectable_slowdown",
         {{"5", json_number(noise.slowdown_5)}, {"20", json_number(noise.slowdown_20)}}}}});
}

}  // namespace trainctl::report
